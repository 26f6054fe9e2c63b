import { describe, expect, it } from "vitest";
import { niceTop, stepped } from "@/ui/Chart";
import { search } from "@/ui/lists";
import { sampleOf } from "./developers/samples";
import { isBackingOff, scheduleOf, type ScheduleValues } from "./jobs/data";
import { linesOf, seriesValue } from "./ops/Charts";
import { overSince } from "./ops/data";
import { figure, filledSince } from "./ops/Overview";
import { countsOf, rangeOf } from "./ops/Runs";
import { comparedShares } from "./ops/Shares";
import { attemptsOf } from "./ops/TaskPage";
import { BLANK, written } from "./text/stream";
import { channelOf, refundableFen, type Order } from "./wallet/orders";

const series = (points: { at: string; value: number; [label: string]: string | number }[]) => ({ name: "x", unit: "nodes", description: "", merge: "sum" as const, stepSeconds: 60, isMeasured: true, points }) as never;

describe("charts", () => {
  it("makes one line of the points with the same labels, named by what differs", () => {
    const lines = linesOf(
      series([
        { at: "2026-01-01T00:00:00Z", value: 1, pool: "gpu", lane: "vip_short" },
        { at: "2026-01-01T00:01:00Z", value: 2, pool: "gpu", lane: "vip_short" },
        { at: "2026-01-01T00:00:00Z", value: 3, pool: "gpu", lane: "free_default" },
      ]),
      (_, value) => value,
    );
    expect(lines.map((line) => [line.name, line.points.length])).toEqual([["free_default", 1], ["vip_short", 2]]);
  });

  it("fills counts with zero and leaves gaps in other lines", () => {
    const line = { name: "x", points: [{ at: 60_000, value: 5 }] };
    expect(stepped(line, 0, 180_000, 60_000, true).map((point) => point.value)).toEqual([0, 5, 0]);
    expect(stepped(line, 0, 180_000, 60_000, false).map((point) => point.value)).toEqual([null, 5, null]);
  });

  it("ends the axis at a round number and writes units", () => {
    expect([niceTop(0), niceTop(7), niceTop(130), niceTop(0.03)]).toEqual([1, 10, 200, 0.05]);
    expect([seriesValue(0.256, "ratio", "utilisation"), seriesValue(2, "ratio", "burn_rate"), seriesValue(90, "seconds", "wait_p95")]).toEqual(["25.6 %", "2", "1 min 30 s"]);
  });
});

describe("overview", () => {
  it("finds when a queue last became non-empty", () => {
    const found = series([
      { at: "2026-01-01T01:00:00Z", value: 2, queue: "q" },
      { at: "2026-01-01T02:00:00Z", value: 0, queue: "q" },
      { at: "2026-01-01T03:00:00Z", value: 1, queue: "q" },
      { at: "2026-01-01T04:00:00Z", value: 1, queue: "q" },
    ]);
    expect([filledSince(found, "q"), filledSince(found, "other")]).toEqual(["2026-01-01T03:00:00Z", null]);
  });

  it("writes a reading with its unit", () => {
    expect([figure(null, "s"), figure(12.34, "s"), figure(50, "%")]).toEqual(["–", "12.3 s", "50 %"]);
  });
});

describe("operations", () => {
  it("shows each attempt as it ended, also after a retry", () => {
    const change = (second: number, fromStatus: string, toStatus: string, attempt: number, reason: string | null = null) => ({ at: `2026-01-01T00:00:0${second}Z`, node: "cutout", fromStatus, toStatus, attempt, workerId: "w", reason });
    const found = attemptsOf([change(0, "QUEUED", "PROCESSING", 1), change(2, "PROCESSING", "FAILED", 1, "X"), change(3, "FAILED", "PENDING", 1), change(4, "QUEUED", "PROCESSING", 2)]);
    expect(found.map((one) => [one.attempt, one.status, one.reason, one.endedAt])).toEqual([[1, "FAILED", "X", "2026-01-01T00:00:02Z"], [2, "PROCESSING", null, null]]);
  });

  it("knows since when a reading is over its limit", () => {
    const now = Date.parse("2026-01-01T00:10:00Z");
    expect(overSince({ name: "outboxOldest", ok: false, value: 90, limit: 60, unit: "s" }, undefined, now)).toBe("2026-01-01T00:09:30.000Z");
    const waiting = series([{ at: "2026-01-01T00:01:00Z", value: 9 }, { at: "2026-01-01T00:02:00Z", value: 1 }, { at: "2026-01-01T00:03:00Z", value: 3, lane: "a" }, { at: "2026-01-01T00:03:00Z", value: 4, lane: "b" }]);
    expect(overSince({ name: "nodesWaiting", ok: false, value: 9, limit: 5, unit: "nodes" }, waiting, now)).toBe("2026-01-01T00:03:00Z");
  });

  it("compares shares with weights where tenants competed", () => {
    const points = [{ at: "a", value: 0.75, pool: "gpu", tenantId: "x" }, { at: "a", value: 0.25, pool: "gpu", tenantId: "y" }, { at: "b", value: 1, pool: "gpu", tenantId: "x" }];
    const [pool] = comparedShares(points as never, (id) => (id === "x" ? 3 : 1));
    expect([pool!.steps, pool!.tenants[0]!.byWeight.map((one) => one.value), pool!.tenants[1]!.byWeight.map((one) => one.value)]).toEqual([1, [0.75], [0.25]]);
  });

  it("counts ended runs over whole hours", () => {
    expect(countsOf([{ at: "a", value: 2, status: "SUCCESS" }, { at: "b", value: 3, status: "SUCCESS" }] as never)).toEqual({ SUCCESS: 5 });
    expect(rangeOf("2026-01-01T00:30:00Z", null, Date.parse("2026-01-01T02:10:00Z"))).toEqual({ from: "2026-01-01T00:00:00.000Z", to: "2026-01-01T03:00:00.000Z", step: 3600 });
  });
});

describe("lists", () => {
  it("leaves empty fields out of the query", () => {
    expect([search({}), search({ a: "", b: null, c: undefined, d: "x y", e: 0 })]).toEqual(["", "?d=x+y&e=0"]);
  });
});

describe("wallet", () => {
  it("chooses the channel that a device can pay by", () => {
    expect(["Mozilla/5.0 (X11; Linux)", "Mozilla/5.0 (iPhone) Mobile", "Mozilla/5.0 (iPhone) MicroMessenger/8"].map(channelOf)).toEqual(["native", "h5", "jsapi"]);
  });

  it("refunds only what was not refunded before", () => {
    expect(refundableFen({ amountFen: 19_900, refundedFen: 990 } as Order)).toBe(18_910);
  });
});

describe("schedules", () => {
  const values: ScheduleValues = { rhythm: "daily", every: 15, minute: 5, time: "09:30", weekday: 1, expr: " 0 0 * * * ", at: "", timezone: "UTC" };
  it("turns choices into cron expressions", () => {
    const expr = (rhythm: ScheduleValues["rhythm"]) => scheduleOf({ ...values, rhythm }).expr;
    expect([expr("minutes"), expr("hourly"), expr("daily"), expr("weekly"), expr("cron")]).toEqual(["*/15 * * * *", "5 * * * *", "30 9 * * *", "30 9 * * 1", "0 0 * * *"]);
  });

  it("calls a run busy from its third attempt on", () => {
    const run = { state: "RETRYING", attempt: 3, nextRetryAt: "2026-01-01T00:00:00Z" };
    expect([isBackingOff(run), isBackingOff({ ...run, attempt: 2 }), isBackingOff({ ...run, state: "FAILED" })]).toEqual([true, false, false]);
  });
});

describe("the stream of a text", () => {
  const frame = (event: string, data: Record<string, unknown>, id = "1-0") => ({ id, event, data });

  it("writes no piece twice after a resumed connection", () => {
    let writing = written(BLANK, frame("token", { text: "你好", offset: 0 }));
    writing = written(writing, frame("token_batch", { text: "你好👋 world", offset: 0 }));
    expect([writing.text, writing.characters]).toEqual(["你好👋 world", 9]);
  });

  it("drops the text of an attempt that was lost, and ends once", () => {
    let writing = written(written(BLANK, frame("token", { text: "abc", offset: 0 })), frame("restart", { from: 0 }));
    expect(writing.text).toBe("");
    writing = written(writing, frame("done", { points: 3 }));
    expect([writing.end, writing.points]).toEqual(["done", 3]);
  });
});

describe("samples", () => {
  it("name the address of this stack", () => {
    expect(sampleOf("curl", "https://a.example")).toContain("API=https://a.example/api/v1");
    expect(sampleOf("python", "https://a.example")).toContain('api = "https://a.example/api/v1"');
  });
});
