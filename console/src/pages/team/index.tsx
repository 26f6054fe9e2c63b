import { App, Button, Drawer, Form, Input, InputNumber, Modal, Select, type SelectProps } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call, once } from "@/api/client";
import { useAllowed, useUser } from "@/api/queries";
import { raw } from "@/api/raw";
import type { Schemas } from "@/api/types";
import { currentLanguage, dateTime, number, points, relative, useT, valueText } from "@/i18n";
import { Act } from "@/ui/Act";
import { DataTable } from "@/ui/DataTable";
import { EnterSubmits } from "@/ui/EnterSubmits";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { Logins } from "../account/Logins";
import { Roles } from "./Roles";
import "./team.css";

type User = Schemas["UserBody"] & { displayName?: string | null; lastLoginAt?: string | null; balance?: number };

interface Invitation {
  invitationId: string;
  email: string;
  roles: string[];
  status: string;
  invitedByEmail: string | null;
  createdAt: string;
  expiresAt: string;
}

const nameOf = (user: User): string => user.displayName ?? user.email ?? user.phone ?? user.userId;

export default function Team() {
  const t = useT();
  const me = useUser();
  const ask = useReason();
  const client = useQueryClient();
  const mayTransfer = useAllowed("points.transfer");
  const users = usePaged<User>(["users"], "/users", { limit: 50 });
  const invitations = usePaged<Invitation>(["invitations"], "/invitations");
  const [isInviting, setInviting] = useState(false);
  const [changed, setChanged] = useState<User | null>(null);
  const [receiver, setReceiver] = useState<User | null>(null);
  const [watched, setWatched] = useState<User | null>(null);
  const [isRolesOpen, setRolesOpen] = useState(false);
  // Asked for when they are needed: a page sends at most four requests.
  const roles = useQuery({ queryKey: ["roles"], enabled: isRolesOpen || isInviting || changed !== null, queryFn: async () => (await call(api.GET("/api/v1/roles", { params: { query: { limit: 100 } } }))).items });
  const setStatus = (user: User, status: "ACTIVE" | "DISABLED") =>
    ask({
      title: t(status === "DISABLED" ? "tmDisableTitle" : "tmEnableTitle", { person: nameOf(user) }),
      text: t(status === "DISABLED" ? "tmDisableText" : "tmEnableText"),
      action: t(status === "DISABLED" ? "tmDisable" : "tmEnable"),
      isDanger: status === "DISABLED",
      isReasonNeeded: false,
      run: async () => {
        await call(api.PATCH("/api/v1/users/{user_id}", { params: { path: { user_id: user.userId } }, body: { status } }));
        await client.invalidateQueries({ queryKey: ["users"] });
      },
    });
  const resend = async (one: Invitation) => {
    await raw("POST", `/invitations/${one.invitationId}/resend`);
    await client.invalidateQueries({ queryKey: ["invitations"] });
  };
  const revoke = (one: Invitation) =>
    ask({
      title: t("tmRevokeTitle", { email: one.email }),
      text: t("tmRevokeText"),
      action: t("tmRevoke"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await raw("DELETE", `/invitations/${one.invitationId}`);
        await client.invalidateQueries({ queryKey: ["invitations"] });
      },
    });
  const pending = invitations.items.filter((one) => one.status === "OPEN" || one.status === "EXPIRED");
  return (
    <Page
      title={t("navTeam")}
      text={t("tmHint")}
      actions={
        <Button type="primary" onClick={() => setInviting(true)}>
          {t("tmInvite")}
        </Button>
      }
    >
      <div className="stack loose">
        <DataTable<User>
          label={t("tmPeople")}
          source={users}
          rowKey={(user) => user.userId}
          empty={t("tmNobody")}
          columns={[
            {
              title: t("tmPerson"),
              cell: (user) => (
                <>
                  <strong>{nameOf(user)}</strong> {user.userId === me.userId ? <span className="tag">{t("tmYou")}</span> : null}
                  {user.displayName && user.email ? <div className="soft">{user.email}</div> : null}
                </>
              ),
            },
            { title: t("tmRoles"), cell: (user) => user.roles.map((role) => valueText("role", role)).join(", ") },
            { title: t("tmPoints"), isNumber: true, cell: (user) => (user.balance === undefined ? "–" : number(user.balance)) },
            { title: t("tmLastLogin"), cell: (user) => (user.lastLoginAt ? <span title={dateTime(user.lastLoginAt)}>{relative(user.lastLoginAt)}</span> : "–") },
            { title: t("tmStatus"), cell: (user) => <span className={`tag ${user.status === "ACTIVE" ? "good" : "bad"}`}>{valueText("user", user.status)}</span> },
            {
              title: t("tmActions"),
              isQuiet: true,
              cell: (user) => (
                <div className="row tm-actions">
                  {mayTransfer && user.userId !== me.userId && user.status === "ACTIVE" ? (
                    <Button size="small" aria-label={`${t("tmTransfer")} ${nameOf(user)}`} onClick={() => setReceiver(user)}>
                      {t("tmTransfer")}
                    </Button>
                  ) : null}
                  {user.userId !== me.userId ? (
                    <Button size="small" aria-label={`${t("tmChangeRoles")} ${nameOf(user)}`} onClick={() => setChanged(user)}>
                      {t("tmChangeRoles")}
                    </Button>
                  ) : null}
                  <Button size="small" aria-label={`${t("tmLogins")} ${nameOf(user)}`} onClick={() => setWatched(user)}>
                    {t("tmLogins")}
                  </Button>
                  {user.userId !== me.userId ? (
                    <Button size="small" danger={user.status === "ACTIVE"} aria-label={`${t(user.status === "ACTIVE" ? "tmDisable" : "tmEnable")} ${nameOf(user)}`} onClick={() => setStatus(user, user.status === "ACTIVE" ? "DISABLED" : "ACTIVE")}>
                      {t(user.status === "ACTIVE" ? "tmDisable" : "tmEnable")}
                    </Button>
                  ) : null}
                </div>
              ),
            },
          ]}
        />
        {pending.length || invitations.error ? (
          <section className="stack" aria-labelledby="tm-invitations">
            <h2 id="tm-invitations">{t("tmInvitations")}</h2>
            <DataTable<Invitation>
              label={t("tmInvitations")}
              source={{ ...invitations, items: pending }}
              rowKey={(one) => one.invitationId}
              empty=""
              columns={[
                { title: t("email"), cell: (one) => one.email },
                { title: t("tmRoles"), cell: (one) => one.roles.map((role) => valueText("role", role)).join(", ") },
                { title: t("tmStatus"), cell: (one) => <span className={`tag ${one.status === "OPEN" ? "live" : "warn"}`}>{valueText("invitation", one.status)}</span> },
                { title: t("tmValidUntil"), cell: (one) => dateTime(one.expiresAt) },
                { title: t("tmInvitedBy"), cell: (one) => one.invitedByEmail ?? "–" },
                {
                  title: t("tmActions"),
                  isQuiet: true,
                  cell: (one) => (
                    <div className="row">
                      <Act text={t("tmResend")} name={`${t("tmResend")} ${one.email}`} done={t("tmResent")} run={() => resend(one)} />
                      <Button size="small" danger aria-label={`${t("tmRevoke")} ${one.email}`} onClick={() => revoke(one)}>
                        {t("tmRevoke")}
                      </Button>
                    </div>
                  ),
                },
              ]}
            />
          </section>
        ) : null}
        <Roles roles={roles.data ?? []} error={roles.error} isPending={roles.isPending} isOpen={isRolesOpen} open={() => setRolesOpen(true)} />
        <Shop />
      </div>
      {isInviting ? <Invite roles={roles.data ?? []} close={() => setInviting(false)} /> : null}
      {changed ? <ChangeRoles user={changed} roles={roles.data ?? []} close={() => setChanged(null)} /> : null}
      {receiver ? <Transfer receiver={receiver} close={() => setReceiver(null)} /> : null}
      <Drawer open={watched !== null} onClose={() => setWatched(null)} title={watched ? t("tmLoginsOf", { person: nameOf(watched) }) : ""} size="large" destroyOnHidden>
        {watched ? <Logins path={`/users/${watched.userId}/logins`} /> : null}
      </Drawer>
    </Page>
  );
}

type Role = Schemas["RoleBody"];
const roleOptions = (roles: Role[]) => roles.map((role) => ({ value: role.name, label: valueText("role", role.name) }));

/** The list closes after each choice: while it is open, Tab takes or drops a role and does not leave the field. */
function RoleSelect({ roles, ...field }: { roles: Role[] } & SelectProps<string[]>) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return <Select<string[]> {...field} mode="multiple" options={roleOptions(roles)} loading={!roles.length} open={isOpen} onOpenChange={setOpen} onSelect={close} onDeselect={close} />;
}

function Invite({ roles, close }: { roles: Role[]; close: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const { message } = App.useApp();
  const [form] = Form.useForm<{ email: string; roles: string[] }>();
  const { submit, fault, isSending } = useSubmit(
    form,
    async (values) => {
      await raw("POST", "/invitations", { ...values, language: currentLanguage() });
      await client.invalidateQueries({ queryKey: ["invitations"] });
      void message.success(t("tmInvited", { email: values.email }));
      close();
    },
    { codes: { AUTH_409_LOGIN_TAKEN: "email", INVITATION_409_OPEN: "email" } },
  );
  return (
    <Modal open title={t("tmInvite")} onCancel={close} okText={t("tmSendInvitation")} onOk={form.submit} okButtonProps={{ loading: isSending }}>
      <Form form={form} layout="vertical" initialValues={{ roles: ["member"] }} onFinish={(values) => void submit(values)}>
        <p className="soft" style={{ marginBottom: 12 }}>
          {t("tmInviteHint")}
        </p>
        <Form.Item name="email" label={t("email")} validateTrigger="onBlur" rules={[{ required: true, message: t("required") }, { type: "email", message: t("invalidEmail") }]}>
          <Input autoComplete="off" inputMode="email" />
        </Form.Item>
        <Form.Item name="roles" label={t("tmRoles")} rules={[{ required: true, message: t("required") }]}>
          <RoleSelect roles={roles} />
        </Form.Item>
        <Fault error={fault} />
        <EnterSubmits />
      </Form>
    </Modal>
  );
}

function ChangeRoles({ user, roles, close }: { user: User; roles: Role[]; close: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [form] = Form.useForm<{ roles: string[]; concurrency: number | null }>();
  const { submit, fault, isSending } = useSubmit(form, async (values) => {
    await call(api.PATCH("/api/v1/users/{user_id}", { params: { path: { user_id: user.userId } }, body: { roles: values.roles, concurrency: values.concurrency ?? null } }));
    await client.invalidateQueries({ queryKey: ["users"] });
    close();
  });
  return (
    <Modal open title={t("tmRolesOf", { person: nameOf(user) })} onCancel={close} okText={t("save")} onOk={form.submit} okButtonProps={{ loading: isSending }}>
      <Form form={form} layout="vertical" initialValues={{ roles: user.roles, concurrency: user.concurrency }} onFinish={(values) => void submit(values)}>
        <Form.Item name="roles" label={t("tmRoles")} rules={[{ required: true, message: t("required") }]}>
          <RoleSelect roles={roles} />
        </Form.Item>
        <Form.Item name="concurrency" label={t("tmConcurrency")} extra={t("tmConcurrencyHint")}>
          <InputNumber min={0} precision={0} style={{ width: "100%" }} />
        </Form.Item>
        <Fault error={fault} />
        <EnterSubmits />
      </Form>
    </Modal>
  );
}

function Transfer({ receiver, close }: { receiver: User; close: () => void }) {
  const t = useT();
  const me = useUser() as ReturnType<typeof useUser> & { balance?: number };
  const client = useQueryClient();
  const { message } = App.useApp();
  const [key] = useState(() => crypto.randomUUID());
  const [form] = Form.useForm<{ amount: number }>();
  const { submit, fault, isSending } = useSubmit(
    form,
    async ({ amount }) => {
      await call(api.POST("/api/v1/points/transfers", { body: { toUserId: receiver.userId, amount }, ...once(key) } as never));
      void message.success(t("tmTransferred", { points: points(amount), person: nameOf(receiver) }));
      await Promise.all(["me", "users", "points"].map((name) => client.invalidateQueries({ queryKey: [name] })));
      close();
    },
    { codes: { POINTS_402_INSUFFICIENT: "amount" } },
  );
  return (
    <Modal open title={t("tmTransferTo", { person: nameOf(receiver) })} onCancel={close} okText={t("tmTransfer")} onOk={form.submit} okButtonProps={{ loading: isSending }}>
      <Form form={form} layout="vertical" onFinish={(values) => void submit(values)}>
        <p className="soft" style={{ marginBottom: 12 }}>
          {t("tmTransferHint", { points: points(me.balance ?? 0) })}
        </p>
        <Form.Item name="amount" label={t("tmPoints")} rules={[{ required: true, message: t("required") }]}>
          <InputNumber min={1} precision={0} style={{ width: "100%" }} />
        </Form.Item>
        <Fault error={fault} />
        <EnterSubmits />
      </Form>
    </Modal>
  );
}

interface ShopAnswer {
  name: string;
  tier: string;
  concurrency: number;
  userConcurrency: number | null;
  lowBalancePoints?: number | null;
}

/** Name of the shop, and the balance below which everybody is warned. */
function Shop() {
  const t = useT();
  const [isOpen, setOpen] = useState(false);
  const found = useQuery({ queryKey: ["tenant"], enabled: isOpen, queryFn: () => raw<ShopAnswer>("GET", "/tenant") });
  return (
    <section className="stack" aria-labelledby="tm-shop">
      <div className="row between">
        <div>
          <h2 id="tm-shop">{t("tmShop")}</h2>
          <p className="soft">{t("tmShopHint")}</p>
        </div>
        {isOpen ? null : <Button onClick={() => setOpen(true)}>{t("tmShopOpen")}</Button>}
      </div>
      <Fault error={found.error} retry={() => void found.refetch()} />
      {found.data ? <ShopForm shop={found.data} /> : null}
    </section>
  );
}

function ShopForm({ shop }: { shop: ShopAnswer }) {
  const t = useT();
  const client = useQueryClient();
  const { message } = App.useApp();
  const [form] = Form.useForm<{ name: string; userConcurrency: number | null; lowBalancePoints: number | null }>();
  const { submit, fault, isSending } = useSubmit(form, async (values) => {
    await raw("PATCH", "/tenant", { name: values.name, userConcurrency: values.userConcurrency ?? null, lowBalancePoints: values.lowBalancePoints ?? null });
    await Promise.all(["tenant", "me"].map((name) => client.invalidateQueries({ queryKey: [name] })));
    void message.success(t("saved"));
  });
  return (
    <Form form={form} layout="vertical" className="card" style={{ maxWidth: 560 }} initialValues={shop} onFinish={(values) => void submit(values)}>
      <Form.Item name="name" label={t("shopName")} rules={[{ required: true, whitespace: true, message: t("required") }]}>
        <Input maxLength={200} />
      </Form.Item>
      <Form.Item name="lowBalancePoints" label={t("tmLowBalance")} extra={t("tmLowBalanceHint")}>
        <InputNumber min={0} precision={0} style={{ width: "100%" }} />
      </Form.Item>
      <Form.Item name="userConcurrency" label={t("tmUserConcurrency")} extra={t("tmUserConcurrencyHint", { count: number(shop.concurrency) })}>
        <InputNumber min={1} precision={0} style={{ width: "100%" }} />
      </Form.Item>
      <Fault error={fault} />
      <Button type="primary" htmlType="submit" loading={isSending}>
        {t("save")}
      </Button>
    </Form>
  );
}
