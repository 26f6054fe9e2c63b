import type { Schemas } from "@/api/types";

export type Order = Schemas["OrderBody"];

export const OPEN: ReadonlySet<string> = new Set(["CREATED", "PAYING", "PAID"]);
export const ORDER_STYLES: Record<string, string> = { COMPLETED: "good", CLOSED: "", REFUNDING: "warn", REFUNDED: "warn", PAYING: "live", PAID: "live", CREATED: "live" };
export const REFUND_STYLES: Record<string, string> = { SUCCESS: "good", PROCESSING: "live", REQUESTED: "live", ABNORMAL: "bad", CLOSED: "" };

export interface Refund {
  refundId: string;
  orderId: string;
  amountFen: number;
  points: number;
  status: string;
  reason: string;
  createdAt: string;
  endedAt: string | null;
}

/** A phone cannot scan its own screen: it pays through WeChat's page, or inside WeChat by its own script. */
export function channelOf(agent: string): "native" | "h5" | "jsapi" {
  if (/MicroMessenger/i.test(agent)) return "jsapi";
  return /Android|iPhone|iPad|Mobile/i.test(agent) ? "h5" : "native";
}

/** Asks for less than the rest of an order when part of it was refunded before. */
export const refundableFen = (order: Order): number => Math.max(0, order.amountFen - order.refundedFen);
