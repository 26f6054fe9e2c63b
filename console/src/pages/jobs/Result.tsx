import { dateTime, useT, valueText } from "@/i18n";
import { isBackingOff } from "./data";

interface Properties {
  run: { state: string; attempt: number; nextRetryAt: string | null; lastError: string | null; httpStatus: number | null; waitingFor: string | null };
}

/** What a run came to, or why it waits. An error of the target is shown as it came. */
export function Result({ run }: Properties) {
  const t = useT();
  if (isBackingOff(run)) return <>{t("jobBackingOff", { time: dateTime(run.nextRetryAt!) })}</>;
  if (run.lastError) return <span translate="no">{run.lastError}</span>;
  return <>{run.httpStatus ? `HTTP ${run.httpStatus}` : run.waitingFor ? valueText("runWaits", run.waitingFor) : "–"}</>;
}
