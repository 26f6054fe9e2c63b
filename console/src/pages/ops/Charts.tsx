import { Input, Segmented, Select } from "antd";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import type { paths } from "@/api/schema";
import type { Schemas } from "@/api/types";
import { currentLanguage, duration, number, useT } from "@/i18n";
import type { Word } from "@/i18n/words";
import { Chart, type Line } from "@/ui/Chart";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { useSeriesLabel } from "./data";
import { localTime } from "./Tasks";

type Series = Schemas["SeriesBody"];
type Name = paths["/api/v1/ops/series"]["get"]["parameters"]["query"]["name"];

/** At most three charts: a page needs few requests, and an operator compares few lines. */
const BOARDS: Record<string, [title: Word, names: Name[]]> = {
  queue: ["opsBoardQueue", ["throughput", "waiting", "wait_p95"]],
  waits: ["opsBoardWaits", ["wait_p50", "wait_p95", "wait_within_target"]],
  failures: ["opsBoardFailures", ["failures", "dead_letters", "server_errors"]],
  workers: ["opsBoardWorkers", ["utilisation", "running", "node_duration_p95"]],
  shares: ["opsBoardShares", ["share"]],
  service: ["opsBoardService", ["availability", "burn_rate", "error_budget"]],
  requests: ["opsBoardRequests", ["requests", "server_errors"]],
  jobs: ["opsBoardJobs", ["trigger_latency_p95", "run_backlog", "runs_ended"]],
  jobsDone: ["opsBoardJobsDone", ["run_failures", "runs_on_time", "trigger_latency_p50"]],
  texts: ["opsBoardTexts", ["tokens_per_second", "first_token_p95"]],
};

const MINUTE_S = 60;
/** Range → its length and step, in seconds. */
const RANGES = { "1h": [3600, 60], "6h": [21_600, 300], "24h": [86_400, 1200], "7d": [604_800, 7200], "28d": [2_419_200, 28_800] } as const;
type RangeName = keyof typeof RANGES;
/** A range by its name, or from one moment to another. */
export type Range = RangeName | { from: string; to: string };
const MOST_STEPS = 120;
const STEPS_S = [60, 300, 600, 1200, 3600, 7200, 14_400, 28_800, 86_400];

/** The ends of a range on whole steps, in milliseconds, and its step in seconds. */
export function boundsOf(range: Range, now: number = Date.now()): { from: number; to: number; step: number } {
  if (typeof range === "string") {
    const [length, step] = RANGES[range];
    const to = Math.ceil(now / 1000 / step) * step * 1000;
    return { from: to - length * 1000, to, step };
  }
  const [start, end] = [Date.parse(range.from), Date.parse(range.to)];
  const step = STEPS_S.find((one) => (end - start) / 1000 / one <= MOST_STEPS) ?? STEPS_S.at(-1)!;
  return { from: Math.floor(start / 1000 / step) * step * 1000, to: Math.ceil(end / 1000 / step) * step * 1000, step };
}

export default function Charts() {
  const t = useT();
  const [params, setParams] = useSearchParams();
  const board = params.get("board") ?? "queue";
  const [from, to] = [params.get("from"), params.get("to")];
  const named = (params.get("range") ?? "1h") as RangeName;
  const range: Range = from && to && from < to ? { from, to } : named in RANGES ? named : "1h";
  const names = (BOARDS[board] ?? BOARDS.queue!)[1];
  const change = (changed: Record<string, string | null>) =>
    setParams((before) => {
      for (const [name, value] of Object.entries(changed))
        if (value) before.set(name, value);
        else before.delete(name);
      return before;
    });
  const moment = (name: "from" | "to", title: string) => (
    <label>
      {title}
      <Input type="datetime-local" value={localTime(params.get(name))} onChange={({ target }) => change({ [name]: target.value ? new Date(target.value).toISOString() : null })} />
    </label>
  );
  return (
    <Page
      title={t("opsCharts")}
      text={t("opsChartsHint")}
      actions={
        <Segmented<string> aria-label={t("opsRange")} value={typeof range === "string" ? range : ""} onChange={(value) => change({ range: value, from: null, to: null })} options={Object.keys(RANGES).map((one) => ({ value: one, label: t(`opsRange_${one as RangeName}`) }))} />
      }
    >
      <div className="stack">
        <div className="ops-filter" style={{ marginBottom: 0 }}>
        <label>
          {t("opsBoard")}
          <Select style={{ minWidth: 220 }} value={board} onChange={(value) => change({ board: value })} options={Object.entries(BOARDS).map(([value, [title]]) => ({ value, label: t(title) }))} aria-label={t("opsBoard")} />
        </label>
        {moment("from", t("opsFrom"))}
        {moment("to", t("opsTo"))}
        </div>
        <div className="ops-charts">
          {names.map((name) => (
            <SeriesChart key={name} name={name} range={range} />
          ))}
        </div>
      </div>
    </Page>
  );
}

/** The points of a series between the ends of a range. */
export const useSeries = (name: Name, range: Range) =>
  useQuery({
    queryKey: ["ops", "series", name, range],
    refetchInterval: MINUTE_S * 1000,
    queryFn: async () => {
      const { from, to, step } = boundsOf(range);
      const query = { name, from: new Date(from).toISOString(), to: new Date(to).toISOString(), step };
      return { from, to, series: await call(api.GET("/api/v1/ops/series", { params: { query } })) };
    },
  });

export function SeriesChart({ name, range }: { name: Name; range: Range }) {
  const t = useT();
  const labelOf = useSeriesLabel();
  const found = useSeries(name, range);
  const lines = linesOf(found.data?.series, labelOf);
  return (
    <section className="card stack tight" aria-label={t(`series_${name}` as Word)}>
      <h2>{t(`series_${name}` as Word)}</h2>
      {found.error ? <Fault error={found.error} retry={() => void found.refetch()} /> : null}
      {found.isPending ? <Waiting /> : null}
      {found.data && lines.length === 0 ? <p className="soft data-empty">{t(found.data.series.isMeasured ? "opsNoValues" : "opsNotMeasured")}</p> : null}
      {found.data && lines.length > 0 ? (
        <Chart
          title={t(`series_${name}` as Word)}
          lines={lines}
          from={found.data.from}
          to={found.data.to}
          stepMs={found.data.series.stepSeconds * 1000}
          format={(value) => seriesValue(value, found.data.series.unit, name)}
          isFilled={found.data.series.merge === "sum"}
        />
      ) : null}
    </section>
  );
}

/** Points with the same labels are one line. Its name leaves out a label that all lines share, and the pool beside its lane. */
export function linesOf(series: Series | undefined, labelOf: (key: string, value: string) => string): Line[] {
  const groups = new Map<string, { labels: Record<string, string>; points: Line["points"] }>();
  for (const { at, value, ...labels } of series?.points ?? []) {
    const key = JSON.stringify(Object.entries(labels).sort());
    if (!groups.has(key)) groups.set(key, { labels: labels as Record<string, string>, points: [] });
    groups.get(key)!.points.push({ at: Date.parse(at), value });
  }
  const all = [...groups.values()];
  const keys = [...new Set(all.flatMap((group) => Object.keys(group.labels)))].filter((key) => new Set(all.map((group) => group.labels[key])).size > 1).filter((key, _, found) => key !== "pool" || !found.includes("lane"));
  return all
    .map((group) => ({ name: (keys.length ? keys : Object.keys(group.labels).slice(-1)).map((key) => labelOf(key, group.labels[key] ?? "–")).join(" · ") || (series?.name ?? ""), points: group.points }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

export function seriesValue(value: number, unit: string, name: string): string {
  if (unit === "ratio" && name !== "burn_rate") return `${number(Math.round(value * 1000) / 10)} %`;
  if (unit === "seconds") return value > 0 && value < 1 ? `${number(Math.round(value * 1000))} ${currentLanguage() === "zh" ? "毫秒" : "ms"}` : duration(value);
  return number(Math.round(value * 100) / 100);
}
