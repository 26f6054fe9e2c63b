import { Button, Form, Input, InputNumber, Modal } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { api, call, once } from "@/api/client";
import { useAllowed } from "@/api/queries";
import { dateTime, number, useT, valueText, yuan } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { EnterSubmits } from "@/ui/EnterSubmits";
import { Fault } from "@/ui/Fault";
import { useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import { OPEN, ORDER_STYLES, REFUND_STYLES, refundableFen, type Order, type Refund } from "./orders";

const REFUND_POLL_MS = 3000;
const isUnderWay = ({ status }: Refund): boolean => status === "REQUESTED" || status === "PROCESSING";

export default function Orders() {
  const t = useT();
  const mayRefund = useAllowed("order.refund");
  const client = useQueryClient();
  const orders = usePaged<Order>(["orders"], "/orders");
  const refunds = usePaged<Refund>(["refunds"], "/refunds", {}, { everyMs: (items) => (items.some(isUnderWay) ? REFUND_POLL_MS : undefined) });
  // A refund that has ended changes its order and the balance.
  const underWay = refunds.items.filter(isUnderWay).length;
  const before = useRef(underWay);
  useEffect(() => {
    if (underWay < before.current) for (const name of ["orders", "me"]) void client.invalidateQueries({ queryKey: [name] });
    before.current = underWay;
  }, [client, underWay]);
  const [refunded, setRefunded] = useState<Order | null>(null);
  return (
    <div className="stack loose">
      <DataTable<Order>
        label={t("walOrders")}
        source={orders}
        rowKey={(order) => order.orderId}
        empty={t("walNoOrders")}
        columns={[
          { title: t("walWhen"), cell: (order) => dateTime(order.createdAt) },
          { title: t("walPointsTitle"), isNumber: true, cell: (order) => number(order.points) },
          { title: t("walAmount"), isNumber: true, cell: (order) => yuan(order.amountFen) },
          { title: t("walRefunded"), isNumber: true, cell: (order) => (order.refundedFen ? `− ${yuan(order.refundedFen)}` : "–") },
          { title: t("walStatus"), cell: (order) => <span className={`tag ${ORDER_STYLES[order.status] ?? ""}`}>{valueText("order", order.status)}</span> },
          {
            title: t("walActions"),
            isQuiet: true,
            cell: (order) => (
              <div className="row">
                {OPEN.has(order.status) ? (
                  <Link to={`/wallet/pay/${order.orderId}`} aria-label={`${t("walGoOnPaying")} ${yuan(order.amountFen)}`}>
                    {t("walGoOnPaying")}
                  </Link>
                ) : null}
                {order.paidAt ? (
                  <Link to={`/wallet/receipts/${order.orderId}`} aria-label={`${t("walReceipt")} ${dateTime(order.createdAt)}`}>
                    {t("walReceipt")}
                  </Link>
                ) : null}
                {mayRefund && order.status === "COMPLETED" && refundableFen(order) > 0 ? (
                  <Button size="small" aria-label={`${t("walRefund")} ${dateTime(order.createdAt)}`} onClick={() => setRefunded(order)}>
                    {t("walRefund")}
                  </Button>
                ) : null}
              </div>
            ),
          },
        ]}
      />
      {refunds.items.length ? (
        <section className="stack" aria-labelledby="wal-refunds">
          <h2 id="wal-refunds">{t("walRefunds")}</h2>
          <DataTable<Refund>
            label={t("walRefunds")}
            source={refunds}
            rowKey={(refund) => refund.refundId}
            empty=""
            columns={[
              { title: t("walWhen"), cell: (refund) => dateTime(refund.createdAt) },
              { title: t("walAmount"), isNumber: true, cell: (refund) => yuan(refund.amountFen) },
              { title: t("walPointsTitle"), isNumber: true, cell: (refund) => `− ${number(refund.points)}` },
              { title: t("reason"), cell: (refund) => refund.reason },
              { title: t("walStatus"), cell: (refund) => <span className={`tag ${REFUND_STYLES[refund.status] ?? ""}`}>{valueText("refund", refund.status)}</span> },
            ]}
          />
        </section>
      ) : null}
      {refunded ? <RefundForm order={refunded} close={() => setRefunded(null)} /> : null}
    </div>
  );
}

interface Values {
  yuan: number;
  reason: string;
}

function RefundForm({ order, close }: { order: Order; close: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [key] = useState(() => crypto.randomUUID());
  const [form] = Form.useForm<Values>();
  const most = refundableFen(order);
  const amount = Form.useWatch("yuan", form) ?? 0;
  const { submit, fault, isSending } = useSubmit(
    form,
    async (values) => {
      const body = { amountFen: Math.round(values.yuan * 100), reason: values.reason };
      await call(api.POST("/api/v1/orders/{order_id}/refunds", { params: { path: { order_id: order.orderId } }, body, ...once(key) } as never));
      await Promise.all(["orders", "refunds", "me", "points"].map((name) => client.invalidateQueries({ queryKey: [name] })));
      close();
    },
    { names: { amountFen: "yuan" } },
  );
  return (
    <Modal open title={t("walRefundTitle")} onCancel={close} okText={t("walRefund")} okButtonProps={{ danger: true, loading: isSending }} onOk={form.submit}>
      <Form<Values> form={form} layout="vertical" initialValues={{ yuan: most / 100 }} onFinish={(values) => void submit(values)}>
        <p style={{ marginBottom: 12 }}>{t("walRefundText", { points: number(Math.ceil(((amount * 100) / order.amountFen) * order.points)) })}</p>
        <Form.Item name="yuan" label={t("walAmount")} extra={t("walRefundMost", { amount: yuan(most) })} rules={[{ required: true, message: t("required") }]}>
          <InputNumber<number> prefix="¥" min={0.01} max={most / 100} precision={2} style={{ width: "100%" }} />
        </Form.Item>
        <Form.Item name="reason" label={t("reason")} rules={[{ required: true, whitespace: true, message: t("required") }]}>
          <Input maxLength={80} />
        </Form.Item>
        <Fault error={fault} />
        <EnterSubmits />
      </Form>
    </Modal>
  );
}
