import { Button, Checkbox, Form, Input, Modal } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { useUser } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { EnterSubmits } from "@/ui/EnterSubmits";
import { Fault } from "@/ui/Fault";
import { oneOf, useSubmit } from "@/ui/forms";
import { useReason } from "@/ui/useReason";

type Role = Schemas["RoleBody"];
type Permission = Schemas["NewRoleBody"]["permissions"][number];

export const permissionText = (permission: string): string => valueText("permission", permission.replace(".", "_"));

/** The roles of the shop. Built-in ones are shown; own ones are made, changed and deleted. */
export function Roles({ roles, error, isPending, isOpen, open }: { roles: Role[]; error: unknown; isPending: boolean; isOpen: boolean; open: () => void }) {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const [edited, setEdited] = useState<Role | "new" | null>(null);
  const remove = (role: Role) =>
    ask({
      title: t("tmDeleteRoleTitle", { role: role.name }),
      text: t("tmDeleteRoleText"),
      action: t("delete"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await call(api.DELETE("/api/v1/roles/{name}", { params: { path: { name: role.name } } }));
        await client.invalidateQueries({ queryKey: ["roles"] });
      },
    });
  return (
    <section className="stack" aria-labelledby="tm-roles">
      <div className="row between">
        <div>
          <h2 id="tm-roles">{t("tmRoles")}</h2>
          <p className="soft">{t("tmRolesHint")}</p>
        </div>
        {isOpen ? <Button onClick={() => setEdited("new")}>{t("tmNewRole")}</Button> : <Button onClick={open}>{t("tmRolesShow")}</Button>}
      </div>
      {isOpen ? (
        <DataTable<Role>
          label={t("tmRoles")}
          source={{ items: roles, error, isPending }}
          rowKey={(role) => role.name}
          empty={t("tmNoRoles")}
          columns={[
            { title: t("tmRole"), cell: (role) => <strong>{valueText("role", role.name)}</strong> },
            { title: t("tmMay"), cell: (role) => <span className="soft">{role.permissions.map((one) => permissionText(one)).join(" · ")}</span> },
            {
              title: t("tmActions"),
              isQuiet: true,
              cell: (role) =>
                role.isBuiltIn ? (
                  <span className="soft" style={{ whiteSpace: "nowrap" }}>{t("tmBuiltIn")}</span>
                ) : (
                  <div className="row">
                    <Button size="small" aria-label={`${t("tmChangeRole")} ${role.name}`} onClick={() => setEdited(role)}>
                      {t("tmChangeRole")}
                    </Button>
                    <Button size="small" danger aria-label={`${t("delete")} ${role.name}`} onClick={() => remove(role)}>
                      {t("delete")}
                    </Button>
                  </div>
                ),
            },
          ]}
        />
      ) : null}
      {edited ? <RoleForm role={edited === "new" ? null : edited} close={() => setEdited(null)} /> : null}
    </section>
  );
}

function RoleForm({ role, close }: { role: Role | null; close: () => void }) {
  const t = useT();
  const me = useUser();
  const client = useQueryClient();
  const [form] = Form.useForm<{ name: string; permissions: Permission[] }>();
  const { submit, fault, isSending } = useSubmit(form, async (values) => {
    if (role) await call(api.PUT("/api/v1/roles/{name}", { params: { path: { name: role.name } }, body: { permissions: values.permissions } }));
    else await call(api.POST("/api/v1/roles", { body: values }));
    await Promise.all([client.invalidateQueries({ queryKey: ["roles"] }), client.invalidateQueries({ queryKey: ["users"] })]);
    close();
  });
  return (
    <Modal open title={role ? t("tmRolesOf", { person: role.name }) : t("tmNewRole")} onCancel={close} okText={t("save")} onOk={form.submit} okButtonProps={{ loading: isSending }}>
      <Form form={form} layout="vertical" initialValues={role ? { name: role.name, permissions: role.permissions } : { permissions: ["task.read"] }} onFinish={(values) => void submit(values)}>
        <Form.Item name="name" label={t("tmRoleName")} extra={t("tmRoleNameHint")} rules={[{ required: true, message: t("required") }]}>
          <Input maxLength={40} disabled={role !== null} autoComplete="off" />
        </Form.Item>
        <Form.Item name="permissions" label={t("tmMay")} rules={[oneOf(t("required"))]}>
          <Checkbox.Group className="tm-boxes" options={me.permissions.map((value) => ({ value, label: permissionText(value) }))} />
        </Form.Item>
        <Fault error={fault} />
        <EnterSubmits />
      </Form>
    </Modal>
  );
}
