import { Button, Form, Input, Modal, Select } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, call } from "@/api/client";
import { date, number, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import type { Tenant } from "./data";

export const TIERS = ["free", "standard", "vip", "enterprise"] as const;

export default function Tenants() {
  const t = useT();
  const [text, setText] = useState("");
  const [q, setQ] = useState("");
  const [isNew, setNew] = useState(false);
  const found = usePaged<Tenant>(["tenants"], "/tenants", { q });
  return (
    <Page
      title={t("opsTenants")}
      text={t("opsTenantsHint")}
      actions={
        <Button type="primary" onClick={() => setNew(true)}>
          {t("opsNewTenant")}
        </Button>
      }
    >
      <div className="ops-filter">
        <label style={{ flex: "0 1 380px" }}>
          {t("opsFind")}
          <Input.Search allowClear enterButton={t("opsSearch")} value={text} placeholder={t("opsFindTenant")} onChange={({ target }) => setText(target.value)} onSearch={(value) => setQ(value.trim())} />
        </label>
      </div>
      <DataTable<Tenant>
        label={t("opsTenants")}
        source={found}
        rowKey={(tenant) => tenant.tenantId}
        empty={t("opsNothing")}
        columns={[
          { title: t("opsTenant"), cell: (tenant) => <Link to={`/ops/tenants/${tenant.tenantId}`}>{tenant.name}</Link> },
          { title: t("opsTier"), cell: (tenant) => valueText("tier", tenant.tier) },
          { title: t("opsState"), cell: (tenant) => <span className={`tag ${tenant.status === "ACTIVE" ? "good" : "bad"}`}>{valueText("tenant", tenant.status)}</span> },
          { title: t("opsWeight"), isNumber: true, cell: (tenant) => number(tenant.weight) },
          { title: t("opsCap"), isNumber: true, cell: (tenant) => number(tenant.concurrency) },
          { title: t("override_queueDepth"), isNumber: true, cell: (tenant) => number(tenant.queueDepth) },
          { title: t("override_jobPerMinute"), isNumber: true, cell: (tenant) => number(tenant.jobPerMinute) },
          { title: t("opsCreated"), cell: (tenant) => date(tenant.createdAt) },
        ]}
      />
      {isNew ? <NewTenant close={() => setNew(false)} /> : null}
    </Page>
  );
}

interface Values {
  name: string;
  tier: (typeof TIERS)[number];
  email: string;
  password: string;
}

function NewTenant({ close }: { close: () => void }) {
  const t = useT();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [form] = Form.useForm<Values>();
  const { submit, fault, isSending } = useSubmit(
    form,
    async ({ name, tier, email, password }) => {
      const { tenantId } = await call(api.POST("/api/v1/tenants", { body: { name, tier, status: "ACTIVE", owner: { email, password } } }));
      await client.invalidateQueries({ queryKey: ["tenants"] });
      void navigate(`/ops/tenants/${tenantId}`);
    },
    { names: { "owner.email": "email", "owner.password": "password" }, codes: { AUTH_409_LOGIN_TAKEN: "email" } },
  );
  return (
    <Modal open title={t("opsNewTenant")} onCancel={close} okText={t("opsCreate")} onOk={form.submit} okButtonProps={{ loading: isSending }}>
      <Form<Values> form={form} layout="vertical" initialValues={{ tier: "standard" }} onFinish={(values) => void submit(values)}>
        <Form.Item name="name" label={t("shopName")} rules={[{ required: true, whitespace: true, message: t("required") }]}>
          <Input maxLength={200} autoComplete="off" />
        </Form.Item>
        <Form.Item name="tier" label={t("opsTier")}>
          <Select options={TIERS.map((value) => ({ value, label: valueText("tier", value) }))} />
        </Form.Item>
        <Form.Item name="email" label={t("opsOwnerEmail")} rules={[{ required: true, message: t("required") }, { type: "email", message: t("invalidEmail") }]}>
          <Input autoComplete="off" />
        </Form.Item>
        <Form.Item name="password" label={t("opsOwnerPassword")} rules={[{ required: true, message: t("required") }, { min: 8, message: t("tooShort", { minimum: 8 }) }]}>
          <Input.Password autoComplete="new-password" />
        </Form.Item>
        <Fault error={fault} />
      </Form>
    </Modal>
  );
}
