import { request, stack, type Shop } from "./harness";
import { blank, bottle, cutout, RECEIVER, taskEnded, until } from "./operator";

export interface Furnished {
  /** A completed and a failed task. */
  done: string;
  failed: string;
  /** An order that waits for its payment, and one that was paid and refunded in part. */
  open: string;
  paid: string;
}

/** Give a shop something to show on each of its pages. */
export async function furnish(who: Shop): Promise<Furnished> {
  const { accessToken: token } = who;
  const post = <T>(path: string, body: unknown = {}) => request<T>("POST", path, { token, body, key: crypto.randomUUID() });
  const done = await cutout(who, bottle(), "image/jpeg");
  const failed = await cutout(who, blank(), "image/png");
  const buy = async () => (await post<{ orderId: string }>("/orders", { packageId: "starter", channel: "native" })).orderId;
  const [paid, open] = [await buy(), await buy()];
  const simulate = (path: string) => fetch(`${stack.wechatSimUrl}/sim/${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: '{"status":"SUCCESS"}' });
  await simulate(`orders/${paid.replace("ord_", "")}/pay`);
  await until(() => request<{ status: string }>("GET", `/orders/${paid}`, { token }), (order) => order.status === "COMPLETED");
  const { refundId } = await post<{ refundId: string }>(`/orders/${paid}/refunds`, { amountFen: 100, reason: "one picture too many" });
  await post("/api-keys", { name: "server", permissions: ["task.read"] });
  const { webhookId } = await post<{ webhookId: string }>("/webhooks", { url: `${RECEIVER}/hook` });
  await post(`/webhooks/${webhookId}/test`);
  await post("/invitations", { email: `wang-${Date.now()}@shop.example`, roles: ["member"] });
  await post("/users", { email: `li-${Date.now()}@shop.example`, password: "correct horse 1", roles: ["viewer"] });
  // The refund reaches WeChat Pay a moment later.
  await until(() => simulate(`refunds/${refundId.replace(/^[a-z]+_/, "")}/finish`), (answer) => answer.ok);
  await until(() => request<{ items: { status: string }[] }>("GET", "/refunds", { token }), ({ items }) => items.every((one) => one.status === "SUCCESS"));
  await Promise.all([taskEnded(who, done), taskEnded(who, failed)]);
  return { done, failed, open, paid };
}
