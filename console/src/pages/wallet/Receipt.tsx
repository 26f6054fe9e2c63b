import { PrinterOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "react-router";
import { raw } from "@/api/raw";
import { dateTime, number, useT, valueText, yuan } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";

interface ReceiptAnswer {
  receiptNumber: string;
  orderId: string;
  transactionId: string | null;
  tenantName: string;
  buyerEmail: string | null;
  points: number;
  amountFen: number;
  refundedFen: number;
  channel: string;
  createdAt: string;
  paidAt: string;
  refunds: { refundId: string; amountFen: number; endedAt: string | null }[];
}

/** A page for the printer. It is a receipt and says that it is no fapiao. */
export default function Receipt() {
  const t = useT();
  const { orderId = "" } = useParams();
  const found = useQuery({ queryKey: ["orders", orderId, "receipt"], queryFn: () => raw<ReceiptAnswer>("GET", `/orders/${orderId}/receipt`) });
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Waiting />;
  const one = found.data;
  const rows: [string, string][] = [
    [t("walReceiptNumber"), one.receiptNumber],
    [t("walBuyer"), [one.tenantName, one.buyerEmail].filter(Boolean).join(", ")],
    [t("walOrder"), one.orderId],
    [t("walTransaction"), one.transactionId ?? "–"],
    [t("walPaidAt"), dateTime(one.paidAt)],
    [t("walPaidBy"), `${t("walWechatPay")} (${valueText("channel", one.channel)})`],
    [t("walBought"), t("walPointsOf", { points: number(one.points) })],
  ];
  return (
    <Page
      title={t("walReceipt")}
      text={
        <Link className="no-print" to="/wallet/orders">
          {t("walOrders")}
        </Link>
      }
      actions={
        <Button className="no-print" type="primary" icon={<PrinterOutlined />} onClick={() => window.print()}>
          {t("walPrint")}
        </Button>
      }
    >
      <article className="card wal-receipt">
        <header>
          <strong>Artiway</strong>
          <span>{t("walReceipt")}</span>
        </header>
        <dl>
          {rows.map(([title, value]) => (
            <div key={title}>
              <dt>{title}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
        <table>
          <tbody>
            <tr>
              <th scope="row">{t("walAmount")}</th>
              <td className="digits">{yuan(one.amountFen)}</td>
            </tr>
            {one.refunds.map((refund) => (
              <tr key={refund.refundId}>
                <th scope="row">
                  {t("walRefunded")} {refund.endedAt ? dateTime(refund.endedAt) : ""}
                </th>
                <td className="digits">− {yuan(refund.amountFen)}</td>
              </tr>
            ))}
            <tr className="wal-total">
              <th scope="row">{t("walTotal")}</th>
              <td className="digits">{yuan(one.amountFen - one.refundedFen)}</td>
            </tr>
          </tbody>
        </table>
        <p className="soft">{t("walNoFapiao")}</p>
      </article>
    </Page>
  );
}
