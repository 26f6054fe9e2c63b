import { Button, Checkbox, Form, Input, InputNumber, Modal } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { useUser } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, useT } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { EnterSubmits } from "@/ui/EnterSubmits";
import { Fault } from "@/ui/Fault";
import { oneOf, useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { permissionText } from "../team/Roles";
import { Secret } from "./Secret";

type Key = Schemas["KeyBody"];

interface Values {
  name: string;
  permissions: Schemas["NewKeyBody"]["permissions"];
  days: number | null;
  signed: boolean;
}

export function Keys() {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const [isNew, setNew] = useState(false);
  const [made, setMade] = useState<string | null>(null);
  const found = usePaged<Key>(["api-keys"], "/api-keys", { limit: 50 });
  const revoke = (key: Key) =>
    ask({
      title: t("devRevokeTitle", { name: key.name }),
      text: t("devRevokeText"),
      action: t("devRevoke"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await call(api.DELETE("/api/v1/api-keys/{key_id}", { params: { path: { key_id: key.keyId } } }));
        await client.invalidateQueries({ queryKey: ["api-keys"] });
      },
    });
  return (
    <div className="stack">
      {made ? <Secret title={t("devKeyMade")} text={t("devKeyOnce")} secret={made} /> : null}
      <div className="row between">
        <p className="soft">{t("devKeysHint")}</p>
        <Button type="primary" onClick={() => setNew(true)}>
          {t("devNewKey")}
        </Button>
      </div>
      <DataTable<Key>
        label={t("devKeys")}
        source={found}
        rowKey={(key) => key.keyId}
        empty={t("devNoKeys")}
        columns={[
          { title: t("devName"), cell: (key) => <strong>{key.name}</strong> },
          { title: t("devMay"), cell: (key) => <span className="soft">{key.permissions.map(permissionText).join(" · ")}</span> },
          { title: t("devSigned"), cell: (key) => t(key.signed ? "yes" : "no") },
          { title: t("devCreated"), cell: (key) => dateTime(key.createdAt) },
          { title: t("devExpires"), cell: (key) => (key.expiresAt ? dateTime(key.expiresAt) : t("devNever")) },
          {
            title: t("devActions"),
            isQuiet: true,
            cell: (key) => (
              <Button size="small" danger aria-label={`${t("devRevoke")} ${key.name}`} onClick={() => revoke(key)}>
                {t("devRevoke")}
              </Button>
            ),
          },
        ]}
      />
      {isNew ? (
        <NewKey
          close={() => setNew(false)}
          done={(key) => {
            setNew(false);
            setMade(key);
          }}
        />
      ) : null}
    </div>
  );
}

function NewKey({ close, done }: { close: () => void; done: (key: string) => void }) {
  const t = useT();
  const me = useUser();
  const client = useQueryClient();
  const [form] = Form.useForm<Values>();
  const { submit, fault, isSending } = useSubmit(
    form,
    async ({ name, permissions, days, signed }) => {
      const expiresAt = days ? new Date(Date.now() + days * 86_400_000).toISOString() : null;
      const { key } = await call(api.POST("/api/v1/api-keys", { body: { name, permissions, expiresAt, signed } }));
      await client.invalidateQueries({ queryKey: ["api-keys"] });
      done(key);
    },
    { names: { expiresAt: "days" } },
  );
  return (
    <Modal open title={t("devNewKey")} onCancel={close} okText={t("devCreate")} onOk={form.submit} okButtonProps={{ loading: isSending }}>
      <Form<Values> form={form} layout="vertical" onFinish={(values) => void submit(values)} initialValues={{ days: 90, signed: false, permissions: me.permissions.filter((one) => one.startsWith("task.") && one !== "task.manage") as Values["permissions"] }}>
        <Form.Item name="name" label={t("devName")} extra={t("devNameHint")} rules={[{ required: true, whitespace: true, message: t("required") }]}>
          <Input maxLength={60} autoComplete="off" />
        </Form.Item>
        <Form.Item name="days" label={t("devDays")} extra={t("devDaysHint")}>
          <InputNumber min={1} max={3650} precision={0} style={{ width: "100%" }} />
        </Form.Item>
        <Form.Item name="permissions" label={t("devMay")} rules={[oneOf(t("required"))]}>
          <Checkbox.Group className="dev-boxes" options={me.permissions.map((value) => ({ value, label: permissionText(value) }))} />
        </Form.Item>
        <Form.Item name="signed" valuePropName="checked">
          <Checkbox>{t("devSignedHint")}</Checkbox>
        </Form.Item>
        <Fault error={fault} />
        <EnterSubmits />
      </Form>
    </Modal>
  );
}
