import { CheckCircleFilled, CloseCircleOutlined } from "@ant-design/icons";
import { Button, QRCode } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link, useParams } from "react-router";
import { api, call } from "@/api/client";
import { dateTime, duration, number, useT, yuan } from "@/i18n";
import { Empty } from "@/ui/Empty";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { useReason } from "@/ui/useReason";
import { OPEN, type Order } from "./orders";

const POLL_MS = 2000;

/** An order with an address of its own: it can be left and opened again until it is paid or closed. */
export default function Payment() {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const { orderId = "" } = useParams();
  const key = ["orders", orderId];
  const path = { order_id: orderId };
  const found = useQuery({
    queryKey: key,
    queryFn: () => call(api.GET("/api/v1/orders/{order_id}", { params: { path } })) as Promise<Order>,
    refetchInterval: ({ state }) => (state.data && OPEN.has(state.data.status) ? POLL_MS : false),
  });
  const order = found.data;
  // The link to pay is asked for anew when an order is opened again.
  const isOpen = order !== undefined && (order.status === "CREATED" || order.status === "PAYING");
  const hasLink = Boolean(order?.codeUrl ?? order?.h5Url ?? order?.payParams);
  const link = useQuery({
    queryKey: ["orders", orderId, "pay"],
    enabled: isOpen && !hasLink,
    staleTime: 5 * 60_000,
    queryFn: () => call(api.POST("/api/v1/orders/{order_id}/pay", { params: { path } })) as Promise<Order>,
  });
  const isDone = order?.status === "COMPLETED";
  useEffect(() => {
    if (!isDone) return;
    void client.invalidateQueries({ queryKey: ["me"] });
    void client.invalidateQueries({ queryKey: ["points"] });
    void client.invalidateQueries({ queryKey: ["orders", "recent"] });
  }, [client, isDone]);
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!order) return <Waiting />;
  const close = () =>
    ask({
      title: t("walCloseTitle"),
      text: t("walCloseText", { amount: yuan(order.amountFen) }),
      action: t("walClose"),
      isReasonNeeded: false,
      run: async () => {
        client.setQueryData(key, await call(api.POST("/api/v1/orders/{order_id}/close", { params: { path } })));
        await client.invalidateQueries({ queryKey: ["orders", "recent"] });
      },
    });
  const pay = { ...order, ...(hasLink ? {} : link.data) };
  return (
    <Page title={t("walPayTitle", { amount: yuan(order.amountFen) })} text={<Link to="/wallet">{t("walBack")}</Link>}>
      <div aria-live="polite">
        {isDone ? (
          <Empty icon={<CheckCircleFilled />} title={t("walPaid")} text={t("walPaidText", { points: number(order.points) })}>
            <div className="row">
              <Link to={`/wallet/receipts/${order.orderId}`}>{t("walReceipt")}</Link>
              <Link to="/">{t("walToStudio")}</Link>
            </div>
          </Empty>
        ) : order.status === "PAID" ? (
          <Waiting />
        ) : isOpen ? (
          <div className="card wal-pay">
            {pay.codeUrl ? (
              <div className="wal-qr" role="img" aria-label={t("walScan")}>
                <div aria-hidden="true">
                  <QRCode value={pay.codeUrl} size={220} bordered={false} bgColor="#ffffff" color="#000000" type="svg" />
                </div>
              </div>
            ) : null}
            <div className="stack">
              <p className="wal-amount digits">{yuan(order.amountFen)}</p>
              <p>{t("walPointsOf", { points: number(order.points) })}</p>
              <p>{t(pay.codeUrl ? "walScan" : "walPhone")}</p>
              {pay.h5Url ? (
                <a className="wal-button" href={pay.h5Url}>
                  {t("walOpenWechat")}
                </a>
              ) : null}
              <p className="soft" role="status">
                {t("walWaiting")} <Remaining until={order.expiresAt} />
              </p>
              <Fault error={link.error} retry={() => void link.refetch()} />
              <div>
                <Button onClick={close}>{t("walClose")}</Button>
              </div>
            </div>
          </div>
        ) : (
          <Empty icon={<CloseCircleOutlined />} title={t(order.status === "CLOSED" ? "walClosed" : "walRefundedTitle")} text={t(order.status === "CLOSED" ? "walClosedText" : "walRefundedText", { amount: yuan(order.refundedFen) })}>
            <Link to="/wallet">{t("walTopUp")}</Link>
          </Empty>
        )}
      </div>
    </Page>
  );
}

function Remaining({ until }: { until: string }) {
  const t = useT();
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 10_000);
    return () => clearInterval(timer);
  }, []);
  const seconds = (Date.parse(until) - now) / 1000;
  return seconds > 0 ? <span title={dateTime(until)}>{t("walExpiresIn", { time: duration(Math.ceil(seconds / 60) * 60) })}</span> : null;
}
