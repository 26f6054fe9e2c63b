import type { Schemas } from "@/api/types";

export type Job = Schemas["JobBody"];
export type Run = Schemas["RunBody"];

export const JOB_STYLES: Record<string, string> = { ACTIVE: "good", PAUSED: "warn", COMPLETED: "" };
export const RUN_STYLES: Record<string, string> = { SUCCESS: "good", FAILED: "bad", TERMINATED: "", RUNNING: "live", RETRYING: "warn", PENDING: "live" };

export type Rhythm = "minutes" | "hourly" | "daily" | "weekly" | "cron" | "once";

export interface ScheduleValues {
  rhythm: Rhythm;
  every: number;
  minute: number;
  time: string;
  weekday: number;
  expr: string;
  at: string;
  timezone: string;
}

/** The schedule of the API for what a person chose. */
export function scheduleOf(values: ScheduleValues): { type: "CRON" | "ONCE"; expr?: string; at?: string; timezone: string } {
  const { timezone } = values;
  if (values.rhythm === "once") return { type: "ONCE", at: values.at ? new Date(values.at).toISOString() : undefined, timezone };
  const [hour = "0", minute = "0"] = values.time.split(":").map((part) => String(Number(part)));
  const expr =
    values.rhythm === "minutes"
      ? `*/${values.every} * * * *`
      : values.rhythm === "hourly"
        ? `${values.minute} * * * *`
        : values.rhythm === "daily"
          ? `${minute} ${hour} * * *`
          : values.rhythm === "weekly"
            ? `${minute} ${hour} * * ${values.weekday}`
            : values.expr.trim();
  return { type: "CRON", expr, timezone };
}

/** From the third attempt on a run is busy and waits: the page says until when. */
export const isBackingOff = (run: { state: string; attempt: number; nextRetryAt: string | null }): boolean => run.state === "RETRYING" && run.attempt >= 3 && run.nextRetryAt !== null;
