import { App, Button, Form, Input, InputNumber, Modal, Select } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { api, call, once } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, number, points, useT, valueText, yuan } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import NotFound from "@/ui/NotFound";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { useSubmit } from "@/ui/forms";
import { search, usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { shortId, type Tenant } from "./data";
import { Fact } from "./TaskPage";
import { TIERS } from "./Tenants";

type Person = Schemas["TenantUserBody"];
type Order = Schemas["TenantOrderBody"];

const OVERRIDES = ["weight", "concurrency", "queueDepth", "ratePerSecond", "burst", "jobConcurrency", "jobPerMinute", "jobPeriodSeconds"] as const;

export default function TenantPage() {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const { tenantId = "" } = useParams();
  const mayGrant = useAllowed("points.grant");
  const [gifted, setGifted] = useState<Person | null>(null);
  const mayRefund = useAllowed("order.refund");
  const [refunded, setRefunded] = useState<Order | null>(null);
  const found = useQuery({
    queryKey: ["tenants", tenantId],
    queryFn: async () => (await call(api.GET("/api/v1/tenants", { params: { query: { q: tenantId } } }))).items.find((one) => one.tenantId === tenantId) ?? null,
  });
  const people = usePaged<Person>(["tenants", tenantId, "users"], `/tenants/${tenantId}/users`, {}, { isEnabled: Boolean(found.data) });
  const orders = usePaged<Order>(["tenants", tenantId, "orders"], `/tenants/${tenantId}/orders`, {}, { isEnabled: Boolean(found.data) });
  const tenant = found.data;
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (tenant === null) return <NotFound />;
  if (!tenant) return <Waiting />;
  const isActive = tenant.status === "ACTIVE";
  const [balance, held] = people.items.reduce(([sum, frozen], person) => [sum + person.balance, frozen + person.frozen], [0, 0]);
  const refresh = () => client.invalidateQueries({ queryKey: ["tenants"] });
  const suspend = () =>
    ask({
      title: t(isActive ? "opsSuspendTitle" : "opsReopenTitle", { tenant: tenant.name }),
      text: t(isActive ? "opsSuspendText" : "opsReopenText"),
      action: t(isActive ? "opsSuspend" : "opsReopen"),
      isDanger: isActive,
      isReasonNeeded: false,
      run: async () => {
        await call(api.PATCH("/api/v1/tenants/{tenant_id}", { params: { path: { tenant_id: tenantId } }, body: { status: isActive ? "SUSPENDED" : "ACTIVE" } }));
        await refresh();
      },
    });
  return (
    <Page
      title={tenant.name}
      text={
        <>
          <Link to="/ops/tenants">{t("opsTenants")}</Link> · <code>{tenant.tenantId}</code>
        </>
      }
      actions={
        <>
          <Link to={`/ops/tasks${search({ tenantId })}`}>{t("opsTasks")}</Link>
          <Link to={`/ops/runs${search({ tenantId })}`}>{t("opsRuns")}</Link>
          <Link to={`/ops/texts${search({ tenantId })}`}>{t("opsTexts")}</Link>
          <Button danger={isActive} onClick={suspend}>
            {t(isActive ? "opsSuspend" : "opsReopen")}
          </Button>
        </>
      }
    >
      <div className="stack loose">
        <dl className="card ops-facts">
          <Fact title={t("opsState")}>
            <span className={`tag ${isActive ? "good" : "bad"}`}>{valueText("tenant", tenant.status)}</span>
          </Fact>
          <Fact title={t("opsTier")}>{valueText("tier", tenant.tier)}</Fact>
          <Fact title={t("opsBalance")}>
            {people.isPending ? "…" : people.more ? t("opsSeePeople") : points(balance)} {held && !people.more ? t("opsHeld", { points: number(held) }) : ""}
          </Fact>
          <Fact title={t("opsPriority")}>{valueText("priority", tenant.priority)}</Fact>
          <Fact title={t("opsKeptDays")}>{t("opsDays", { days: number(tenant.artefactDays) })}</Fact>
          <Fact title={t("opsCreated")}>{dateTime(tenant.createdAt)}</Fact>
        </dl>
        <Plan key={`${tenant.tenantId}${tenant.tier}`} tenant={tenant} refresh={refresh} />
        <section className="stack" aria-labelledby="ops-people">
          <h2 id="ops-people">{t("opsPeople")}</h2>
          <DataTable<Person>
            label={t("opsPeople")}
            source={people}
            rowKey={(person) => person.userId}
            empty={t("opsNothing")}
            columns={[
              { title: t("opsPerson"), cell: (person) => person.displayName ?? person.email ?? shortId(person.userId) },
              { title: t("email"), cell: (person) => person.email ?? "–" },
              { title: t("opsRoles"), cell: (person) => person.roles.map((role) => valueText("role", role)).join(", ") },
              { title: t("opsState"), cell: (person) => <span className={`tag ${person.status === "ACTIVE" ? "good" : "bad"}`}>{valueText("user", person.status)}</span> },
              { title: t("opsBalance"), isNumber: true, cell: (person) => number(person.balance) },
              mayGrant && {
                title: t("opsActions"),
                isQuiet: true,
                cell: (person) => (
                  <Button size="small" aria-label={`${t("opsGift")} ${person.email ?? person.userId}`} onClick={() => setGifted(person)}>
                    {t("opsGift")}
                  </Button>
                ),
              },
            ]}
          />
        </section>
        <section className="stack" aria-labelledby="ops-orders">
          <h2 id="ops-orders">{t("opsOrders")}</h2>
          <DataTable<Order>
            label={t("opsOrders")}
            source={orders}
            rowKey={(order) => order.orderId}
            empty={t("opsNoOrders")}
            columns={[
              { title: t("opsWhen"), cell: (order) => dateTime(order.createdAt) },
              { title: t("opsPerson"), cell: (order) => order.email ?? shortId(order.userId) },
              { title: t("opsPoints"), isNumber: true, cell: (order) => number(order.points) },
              { title: t("opsAmount"), isNumber: true, cell: (order) => yuan(order.amountFen) },
              { title: t("opsRefunded"), isNumber: true, cell: (order) => (order.refundedFen ? yuan(order.refundedFen) : "–") },
              { title: t("opsState"), cell: (order) => valueText("order", order.status) },
              mayRefund && {
                title: t("opsActions"),
                isQuiet: true,
                cell: (order) =>
                  order.paidAt && order.refundedFen < order.amountFen ? (
                    <Button size="small" aria-label={`${t("opsRefund")} ${yuan(order.amountFen)}`} onClick={() => setRefunded(order)}>
                      {t("opsRefund")}
                    </Button>
                  ) : null,
              },
            ]}
          />
        </section>
      </div>
      {gifted ? <Gift person={gifted} close={() => setGifted(null)} /> : null}
      {refunded ? <RefundForm order={refunded} tenantId={tenantId} close={() => setRefunded(null)} /> : null}
    </Page>
  );
}

type PlanValues = Partial<Record<(typeof OVERRIDES)[number], number | null>> & { tier: (typeof TIERS)[number] };

/** The tier and the overrides of a tenant. An empty field follows the tier. */
function Plan({ tenant, refresh }: { tenant: Tenant; refresh: () => Promise<void> }) {
  const t = useT();
  const { message } = App.useApp();
  const [form] = Form.useForm<PlanValues>();
  const { submit, fault, isSending } = useSubmit(form, async (values) => {
    const body = { tier: values.tier, ...Object.fromEntries(OVERRIDES.map((name) => [name, values[name] ?? null])) };
    await call(api.PATCH("/api/v1/tenants/{tenant_id}", { params: { path: { tenant_id: tenant.tenantId } }, body }));
    await refresh();
    void message.success(t("saved"));
  });
  const own = tenant.overrides as Record<string, number | null | undefined>;
  return (
    <section className="stack" aria-labelledby="ops-plan">
      <div>
        <h2 id="ops-plan">{t("opsPlan")}</h2>
        <p className="soft">{t("opsPlanHint")}</p>
      </div>
      <Form<PlanValues> form={form} layout="vertical" className="card" initialValues={{ tier: tenant.tier as PlanValues["tier"], ...Object.fromEntries(OVERRIDES.map((name) => [name, own[name] ?? null])) }} onFinish={(values) => void submit(values)}>
        <div className="ops-grid">
          <Form.Item name="tier" label={t("opsTier")}>
            <Select options={TIERS.map((value) => ({ value, label: valueText("tier", value) }))} />
          </Form.Item>
          {OVERRIDES.map((name) => (
            <Form.Item key={name} name={name} label={t(`override_${name}`)}>
              <InputNumber min={0} precision={0} placeholder={own[name] === null || own[name] === undefined ? t("opsOfTier", { value: number(tenant[name]) }) : undefined} style={{ width: "100%" }} />
            </Form.Item>
          ))}
        </div>
        <Fault error={fault} />
        <Button type="primary" htmlType="submit" loading={isSending}>
          {t("save")}
        </Button>
      </Form>
    </section>
  );
}

interface GiftValues {
  amount: number;
  reason: string;
}

function Gift({ person, close }: { person: Person; close: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const { message } = App.useApp();
  const [key] = useState(() => crypto.randomUUID());
  const [form] = Form.useForm<GiftValues>();
  const { submit, fault, isSending } = useSubmit(form, async ({ amount, reason }) => {
    await call(api.POST("/api/v1/points/grants", { params: { header: { "Idempotency-Key": key } }, body: { userId: person.userId, amount, reason }, ...once(key) } as never));
    void message.success(t("opsGifted", { points: points(amount) }));
    await Promise.all([client.invalidateQueries({ queryKey: ["tenants"] }), client.invalidateQueries({ queryKey: ["me"] })]);
    close();
  });
  return (
    <Modal open title={t("opsGiftTitle", { person: person.displayName ?? person.email ?? person.userId })} onCancel={close} okText={t("opsGift")} onOk={form.submit} okButtonProps={{ loading: isSending }}>
      <Form<GiftValues> form={form} layout="vertical" onFinish={(values) => void submit(values)}>
        <Form.Item name="amount" label={t("opsPoints")} rules={[{ required: true, message: t("required") }]}>
          <InputNumber min={1} max={1_000_000_000} precision={0} style={{ width: "100%" }} />
        </Form.Item>
        <Form.Item name="reason" label={t("reason")} rules={[{ required: true, whitespace: true, message: t("required") }]}>
          <Input maxLength={500} />
        </Form.Item>
        <Fault error={fault} />
      </Form>
    </Modal>
  );
}

interface RefundValues {
  yuan: number;
  reason: string;
}

/** Money back for an order of the tenant; its points are taken back at the same rate. */
function RefundForm({ order, tenantId, close }: { order: Order; tenantId: string; close: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const { message } = App.useApp();
  const [key] = useState(() => crypto.randomUUID());
  const [form] = Form.useForm<RefundValues>();
  const left = order.amountFen - order.refundedFen;
  const { submit, fault, isSending } = useSubmit(
    form,
    async (values) => {
      await call(api.POST("/api/v1/orders/{order_id}/refunds", { params: { path: { order_id: order.orderId } }, body: { amountFen: Math.round(values.yuan * 100), reason: values.reason, tenantId }, ...once(key) } as never));
      void message.success(t("opsRefundSent", { amount: yuan(Math.round(values.yuan * 100)) }));
      await client.invalidateQueries({ queryKey: ["tenants", tenantId] });
      close();
    },
    { names: { amountFen: "yuan" } },
  );
  return (
    <Modal open title={t("opsRefundTitle", { amount: yuan(order.amountFen) })} onCancel={close} okText={t("opsRefund")} onOk={form.submit} okButtonProps={{ loading: isSending, danger: true }}>
      <Form<RefundValues> form={form} layout="vertical" initialValues={{ yuan: left / 100 }} onFinish={(values) => void submit(values)}>
        <p className="soft" style={{ marginBottom: 12 }}>
          {t("opsRefundText", { left: yuan(left) })}
        </p>
        <Form.Item name="yuan" label={t("opsAmountYuan")} rules={[{ required: true, message: t("required") }]}>
          <InputNumber min={0.01} max={left / 100} precision={2} style={{ width: "100%" }} />
        </Form.Item>
        <Form.Item name="reason" label={t("reason")} rules={[{ required: true, whitespace: true, message: t("required") }]}>
          <Input maxLength={80} />
        </Form.Item>
        <Fault error={fault} />
      </Form>
    </Modal>
  );
}
