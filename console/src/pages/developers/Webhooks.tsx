import { Button, Form, Input } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import type { Schemas } from "@/api/types";
import { dateTime, number, relative, useT, valueText } from "@/i18n";
import { Act } from "@/ui/Act";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { Secret } from "./Secret";

type Webhook = Schemas["WebhookBody"];
type Delivery = Schemas["DeliveryBody"];

const DELIVERY_STYLES: Record<string, string> = { DELIVERED: "good", FAILED: "bad", PENDING: "live" };

export default function Webhooks() {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const [open, setOpen] = useState<string | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const found = usePaged<Webhook>(["webhooks"], "/webhooks", { limit: 50 });
  const [form] = Form.useForm<{ url: string }>();
  const { submit, fault, isSending } = useSubmit(form, async ({ url }) => {
    const made = await call(api.POST("/api/v1/webhooks", { body: { url } }));
    setSecret(made.secret);
    form.resetFields();
    await client.invalidateQueries({ queryKey: ["webhooks"] });
  });
  const test = async (webhook: Webhook) => {
    await call(api.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: webhook.webhookId } } }));
    setOpen(webhook.webhookId);
    await client.invalidateQueries({ queryKey: ["webhooks", webhook.webhookId] });
  };
  const remove = (webhook: Webhook) =>
    ask({
      title: t("devDeleteHookTitle"),
      text: t("devDeleteHookText", { url: webhook.url }),
      action: t("delete"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await call(api.DELETE("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: webhook.webhookId } } }));
        setOpen(null);
        await client.invalidateQueries({ queryKey: ["webhooks"] });
      },
    });
  const opened = found.items.find((one) => one.webhookId === open);
  return (
    <div className="stack loose">
      <Form form={form} layout="vertical" className="card" onFinish={(values) => void submit(values)}>
        <Form.Item name="url" label={t("devUrl")} extra={t("devUrlHint")} rules={[{ required: true, message: t("required") }, { pattern: /^https?:\/\/\S+$/i, message: t("devUrlWrong") }]}>
          <Input placeholder="https://shop.example/artiway" maxLength={2000} inputMode="url" />
        </Form.Item>
        <div className="stack">
          <Fault error={fault} />
          <div>
            <Button type="primary" htmlType="submit" loading={isSending}>
              {t("devAddHook")}
            </Button>
          </div>
          {secret ? <Secret title={t("devHookMade")} text={t("devHookSecret")} secret={secret} /> : null}
        </div>
      </Form>
      <DataTable<Webhook>
        label={t("devWebhooks")}
        source={found}
        rowKey={(webhook) => webhook.webhookId}
        empty={t("devNoHooks")}
        columns={[
          { title: t("devUrl"), cell: (webhook) => <code>{webhook.url}</code> },
          { title: t("devKind"), cell: (webhook) => t(webhook.isImplied ? "devImplied" : "devAllEvents") },
          { title: t("devCreated"), cell: (webhook) => dateTime(webhook.createdAt) },
          {
            title: t("devActions"),
            isQuiet: true,
            cell: (webhook) => (
              <div className="row">
                <Button size="small" aria-label={`${t("devDeliveries")} ${webhook.url}`} onClick={() => setOpen(webhook.webhookId)}>
                  {t("devDeliveries")}
                </Button>
                <Act text={t("devTest")} name={`${t("devTest")} ${webhook.url}`} done={t("devTestSent")} run={() => test(webhook)} />
                <Button size="small" danger aria-label={`${t("delete")} ${webhook.url}`} onClick={() => remove(webhook)}>
                  {t("delete")}
                </Button>
              </div>
            ),
          },
        ]}
      />
      {opened ? <Deliveries key={opened.webhookId} webhook={opened} /> : null}
    </div>
  );
}

function Deliveries({ webhook }: { webhook: Webhook }) {
  const t = useT();
  const client = useQueryClient();
  const found = usePaged<Delivery>(["webhooks", webhook.webhookId], `/webhooks/${webhook.webhookId}/deliveries`, {}, { everyMs: 4000 });
  const again = async (delivery: Delivery) => {
    await call(api.POST("/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", { params: { path: { webhook_id: webhook.webhookId, delivery_id: delivery.deliveryId } } }));
    await client.invalidateQueries({ queryKey: ["webhooks", webhook.webhookId] });
  };
  return (
    <section className="stack" aria-labelledby="dev-deliveries">
      <h2 id="dev-deliveries">{t("devDeliveriesOf", { url: webhook.url })}</h2>
      <DataTable<Delivery>
        label={t("devDeliveries")}
        source={found}
        rowKey={(delivery) => delivery.deliveryId}
        empty={t("devNoDeliveries")}
        columns={[
          { title: t("devWhen"), cell: (delivery) => dateTime(delivery.createdAt) },
          { title: t("devEvent"), cell: (delivery) => <code>{delivery.event}</code> },
          { title: t("devStatus"), cell: (delivery) => <span className={`tag ${DELIVERY_STYLES[delivery.status] ?? ""}`}>{valueText("delivery", delivery.status)}</span> },
          { title: t("devAttempts"), isNumber: true, cell: (delivery) => number(delivery.attempts) },
          { title: t("devAnswer"), cell: (delivery) => [delivery.answerCode, delivery.answer].filter(Boolean).join(" ") || (delivery.nextTryAt ? t("devNextTry", { time: relative(delivery.nextTryAt) }) : "–") },
          {
            title: t("devBody"),
            cell: (delivery) => (
              <details>
                <summary>{t("devShowBody")}</summary>
                <pre className="dev-code">{delivery.body}</pre>
              </details>
            ),
          },
          {
            title: t("devActions"),
            isQuiet: true,
            cell: (delivery) => <Act text={t("devRedeliver")} name={`${t("devRedeliver")} ${delivery.event} ${dateTime(delivery.createdAt)}`} done={t("devRedelivered")} run={() => again(delivery)} />,
          },
        ]}
      />
    </section>
  );
}
