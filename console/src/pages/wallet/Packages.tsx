import { Button } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, call, once } from "@/api/client";
import { number, useT, yuan } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { Waiting } from "@/ui/Waiting";
import { channelOf, OPEN, type Order } from "./orders";

export const useOrders = () => useQuery({ queryKey: ["orders", "recent"], queryFn: async () => (await call(api.GET("/api/v1/orders", { params: { query: { limit: 20 } } }))).items });

/** The packages for sale. An order that is still open is offered again instead of a second one. */
export function Packages() {
  const t = useT();
  const navigate = useNavigate();
  const client = useQueryClient();
  const packages = useQuery({ queryKey: ["packages"], staleTime: 600_000, queryFn: async () => (await call(api.GET("/api/v1/packages", { params: { query: { limit: 50 } } }))).items });
  const orders = useOrders();
  const [keys, setKeys] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState<string | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const open = (orders.data ?? []).filter((order) => OPEN.has(order.status));
  const buy = async (packageId: string) => {
    // The key stays with the package until the order was made, so that a second click pays nothing twice.
    const key = keys[packageId] ?? crypto.randomUUID();
    setKeys({ ...keys, [packageId]: key });
    setBusy(packageId);
    setFault(null);
    try {
      const channel = channelOf(navigator.userAgent);
      const order = (await call(api.POST("/api/v1/orders", { body: { packageId, channel: channel === "jsapi" ? "h5" : channel }, ...once(key) } as never))) as Order;
      setKeys((all) => ({ ...all, [packageId]: crypto.randomUUID() }));
      client.setQueryData(["orders", order.orderId], order);
      await client.invalidateQueries({ queryKey: ["orders", "recent"] });
      void navigate(`/wallet/pay/${order.orderId}`);
    } catch (error) {
      setFault(error);
    } finally {
      setBusy(null);
    }
  };
  if (packages.error) return <Fault error={packages.error} retry={() => void packages.refetch()} />;
  if (!packages.data) return <Waiting />;
  const best = Math.max(...packages.data.map((one) => one.points / one.amountFen));
  return (
    <div className="stack">
      {open.map((order) => (
        <div key={order.orderId} className="wal-open">
          <span>{t("walOpenOrder", { amount: yuan(order.amountFen), points: number(order.points) })}</span>
          <Link to={`/wallet/pay/${order.orderId}`}>{t("walGoOnPaying")}</Link>
        </div>
      ))}
      <Fault error={fault} />
      <ul className="wal-packages">
        {packages.data.map((one) => (
          <li key={one.packageId} className="card">
            <strong className="digits">{number(one.points)}</strong>
            <span className="soft">{t("walPoints")}</span>
            <span className="wal-price digits">{yuan(one.amountFen)}</span>
            <span className="soft digits">{t("walPerPoint", { price: yuan(Math.round((one.amountFen / one.points) * 100)) })}</span>
            {packages.data.length > 1 && one.points / one.amountFen === best ? <span className="tag good wal-best">{t("walBest")}</span> : null}
            <Button type="primary" block loading={busy === one.packageId} disabled={busy !== null && busy !== one.packageId} aria-label={t("walBuyName", { points: number(one.points), amount: yuan(one.amountFen) })} onClick={() => void buy(one.packageId)}>
              {t("walBuy")}
            </Button>
          </li>
        ))}
      </ul>
      <p className="soft">{t("walPackagesHint")}</p>
    </div>
  );
}
