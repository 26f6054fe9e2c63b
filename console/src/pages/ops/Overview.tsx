import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { api, call } from "@/api/client";
import { useLabel } from "@/api/dictionaries";
import type { Schemas } from "@/api/types";
import { dateTime, duration, number, relative, useT, valueText } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { search } from "@/ui/lists";
import type { Word } from "@/i18n/words";
import { midnight, overSince, SERIES_OF_READING, useDeadLetterQueues, useHealth, useInvariants, useLaneName, useLanes, useTenantName } from "./data";

interface Problem {
  key: string;
  isBad: boolean;
  text: ReactNode;
  since: string | null;
  to: string;
  action: string;
}

export default function Overview() {
  const t = useT();
  const label = useLabel();
  const laneName = useLaneName();
  const tenantName = useTenantName();
  const health = useHealth();
  const lanes = useLanes();
  const queues = useDeadLetterQueues();
  // The checks read the whole ledger, so they follow the readings that answer at once.
  const invariants = useInvariants(health.isSuccess && lanes.isSuccess);
  const paused = lanes.data?.filter((lane) => lane.paused) ?? [];
  const filled = queues.data?.filter((queue) => queue.depth > 0) ?? [];
  const changes = useQuery({
    queryKey: ["ops", "audit", "pauses", paused.map((lane) => lane.lane)],
    enabled: paused.length > 0,
    queryFn: () => call(api.GET("/api/v1/ops/audit", { params: { query: { action: "lane.changed", limit: 100 } } })),
  });
  const letters = useQuery({
    queryKey: ["ops", "series", "dead_letters", "since"],
    enabled: filled.length > 0,
    queryFn: () => call(api.GET("/api/v1/ops/series", { params: { query: { name: "dead_letters", from: new Date(Date.now() - 7 * 86_400_000).toISOString(), step: 3600 } } })),
  });
  const high = health.data?.readings.filter((reading) => !reading.ok) ?? [];
  const counted = high.map((reading) => reading.name).filter((name): name is keyof typeof SERIES_OF_READING => name in SERIES_OF_READING);
  const counts = useQuery({
    queryKey: ["ops", "series", "since", counted],
    enabled: counted.length > 0,
    queryFn: async () => {
      const from = new Date(Date.now() - 12 * 3_600_000).toISOString();
      const found = await Promise.all(counted.map((name) => call(api.GET("/api/v1/ops/series", { params: { query: { name: SERIES_OF_READING[name][0], from, step: 60 } } }))));
      return new Map<string, Schemas["SeriesBody"]>(counted.map((name, index) => [name, found[index]!]));
    },
  });
  const bills = useQuery({ queryKey: ["ops", "reconciliations", "last"], enabled: health.isSuccess, staleTime: 300_000, queryFn: async () => (await call(api.GET("/api/v1/ops/reconciliations", { params: { query: { limit: 7 } } }))).items });
  const fault = health.error ?? lanes.error ?? queues.error;
  if (fault)
    return (
      <Page title={t("opsOverview")}>
        <Fault error={fault} retry={() => void Promise.all([health.refetch(), lanes.refetch(), queues.refetch()])} />
      </Page>
    );
  if (!health.data || !lanes.data || !queues.data) return <Waiting />;

  const problems: Problem[] = [
    ...Object.entries(health.data.checks)
      .filter(([, answer]) => answer !== "ok")
      .map(([name, answer]) => ({ key: `check-${name}`, isBad: true, text: t("opsCheckFails", { name: valueText("server", name), state: valueText("check", answer) }), since: null, to: "/ops/charts", action: t("opsCharts") })),
    ...high.map((reading) => {
      const [to, action] = placeOf(reading.name);
      return {
        key: `reading-${reading.name}`,
        isBad: true,
        text: t("opsReadingHigh", { name: valueText("reading", reading.name), value: figure(reading.value, reading.unit), limit: figure(reading.limit, reading.unit) }),
        since: overSince(reading, counts.data?.get(reading.name), health.dataUpdatedAt),
        to,
        action: t(action),
      };
    }),
    ...(health.data.runs?.pausedLanes ?? []).map((lane) => ({
      key: `guard-${lane}`,
      isBad: true,
      text: t("opsGuardPaused", { lane: laneName(lane) }),
      since: health.data.runs!.changedAt,
      to: `/ops/charts${search({ board: "jobs" })}`,
      action: t("opsCharts"),
    })),
    ...(health.data.runs?.circuits ?? []).map((circuit) => ({
      key: `target-${circuit.tenantId}-${circuit.target}`,
      isBad: true,
      text: t("opsTargetStopped", { target: circuit.target, tenant: circuit.tenantId ? tenantName(circuit.tenantId) : "–", failures: number(circuit.failures), runs: number(circuit.runs) }),
      since: circuit.changedAt,
      to: `/ops/runs${search({ state: "FAILED", tenantId: circuit.tenantId })}`,
      action: t("opsRuns"),
    })),
    ...(health.data.circuits ?? []).map((circuit) => ({
      key: `circuit-${circuit.pool}-${circuit.step}`,
      isBad: true,
      text: t("opsCircuitOpen", { step: label("steps", circuit.step), pool: valueText("pool", circuit.pool), error: circuit.lastError }),
      since: circuit.openedAt,
      to: `/ops/tasks${search({ status: "FAILED", from: midnight() })}`,
      action: t("opsFailedTasks"),
    })),
    ...(invariants.data?.checks ?? [])
      .filter((check) => !check.ok)
      .map((check) => ({ key: `invariant-${check.name}`, isBad: true, text: t("opsInvariantBroken", { name: valueText("invariant", check.name), count: number(check.violations.length) }), since: check.since ?? null, to: "/ops/checks", action: t("opsChecks") })),
    ...(bills.data ?? [])
      .filter((day) => day.status === "FAILED" || day.status === "COMPARED")
      .map((day) => ({ key: `bill-${day.day}`, isBad: true, text: t(day.status === "FAILED" ? "opsBillFailed" : "opsBillDiffers", { day: day.day, count: number(day.differences ?? 0) }), since: day.updatedAt, to: "/ops/checks", action: t("opsChecks") })),
    ...paused.map((lane) => {
      const change = changes.data?.items.find((one) => one.target === lane.lane && (one.details.after as { is_paused?: boolean } | undefined)?.is_paused === true);
      const reason = change?.details.reason;
      return {
        key: `lane-${lane.lane}`,
        isBad: false,
        text: t("opsLanePaused", { lane: label("lanes", lane.lane), depth: number(lane.depth) }) + (typeof reason === "string" ? ` ${t("opsReasonGiven", { reason })}` : ""),
        since: change?.at ?? null,
        to: "/ops/lanes",
        action: t("opsLanes"),
      };
    }),
    ...filled.map((queue) => ({ key: `dlq-${queue.queue}`, isBad: false, text: t("opsQueueFilled", { queue: valueText("dead", queue.queue), count: number(queue.depth) }), since: filledSince(letters.data, queue.queue), to: "/ops/dead-letters", action: t("opsDeadLetters") })),
  ];

  return (
    <Page title={t("opsOverview")} text={t("opsOverviewHint")}>
      <div className="stack loose">
        <section className="stack" aria-labelledby="ops-now">
          <h2 id="ops-now">{t("opsNow")}</h2>
          {problems.length === 0 ? <p className="ops-well">{t(invariants.isSuccess ? "opsAllWell" : "opsAllWellSoFar")}</p> : null}
          <ul className="ops-problems">
            {problems.map((problem) => (
              <li key={problem.key} className={problem.isBad ? "bad" : undefined}>
                <div>
                  {problem.text}
                  {problem.since ? (
                    <span className="soft" title={dateTime(problem.since)}>
                      {" "}
                      · {t("opsSince", { time: dateTime(problem.since), ago: relative(problem.since) })}
                    </span>
                  ) : null}
                </div>
                <Link to={problem.to}>{problem.action}</Link>
              </li>
            ))}
          </ul>
        </section>
        <section className="stack" aria-labelledby="ops-readings">
          <h2 id="ops-readings">{t("opsReadings")}</h2>
          <div className="ops-grid">
            <div className={`card ops-figure ${health.data.state === "NORMAL" ? "" : "bad"}`}>
              <span className="soft">{t("opsGuard")}</span>
              <strong>{valueText("state", health.data.state)}</strong>
              <span className="soft">{Object.entries(health.data.checks).map(([name, answer]) => `${valueText("server", name)}: ${valueText("check", answer)}`).join(" · ")}</span>
            </div>
            {health.data.readings.map((reading) => (
              <div key={reading.name} className={`card ops-figure ${reading.ok ? "" : "bad"}`}>
                <span className="soft">{valueText("reading", reading.name)}</span>
                <strong>{figure(reading.value, reading.unit)}</strong>
                <div className={`ops-meter ${reading.ok ? "" : "bad"}`} aria-hidden="true">
                  <i style={{ width: `${Math.min(100, ((reading.value ?? 0) / Math.max(reading.limit, 1e-9)) * 100)}%` }} />
                </div>
                <span className="soft">{t("opsLimitIs", { limit: figure(reading.limit, reading.unit) })}</span>
              </div>
            ))}
            {health.data.runs ? (
              <div className={`card ops-figure ${health.data.runs.state === "NORMAL" ? "" : "bad"}`}>
                <span className="soft">{t("opsRunGuard")}</span>
                <strong>{valueText("state", health.data.runs.state)}</strong>
                <span className="soft">{t("opsRunGuardLine", { latency: health.data.runs.latencyP95Seconds === null ? "–" : duration(health.data.runs.latencyP95Seconds), backlog: number(health.data.runs.backlog ?? 0) })}</span>
              </div>
            ) : null}
            <div className="card ops-figure">
              <span className="soft">{t("opsInQueues")}</span>
              <strong>{number(lanes.data.reduce((sum, lane) => sum + lane.depth, 0))}</strong>
              <span className="soft">{t("opsRunningNow", { count: number(lanes.data.reduce((sum, lane) => sum + lane.running, 0)) })}</span>
            </div>
          </div>
        </section>
        <section className="stack" aria-labelledby="ops-questions">
          <h2 id="ops-questions">{t("opsQuestions")}</h2>
          <ul className="ops-questions">
            <li>
              <Link to={`/ops/tasks${search({ status: "QUEUED" })}`}>{t("opsAskWaiting")}</Link>
            </li>
            <li>
              <Link to="/ops/shares">{t("opsAskShares")}</Link>
            </li>
            <li>
              <Link to={`/ops/tasks${search({ status: "FAILED", from: midnight() })}`}>{t("opsAskFailed")}</Link>
            </li>
            <li>
              <Link to="/ops/checks">{t("opsAskMoney")}</Link>
            </li>
            <li>
              <Link to={`/ops/runs${search({ from: midnight(1) })}`}>{t("opsAskJobs")}</Link>
            </li>
          </ul>
        </section>
      </div>
    </Page>
  );
}

/** The page that shows more of a reading. */
function placeOf(reading: string): [to: string, title: Word] {
  if (reading === "poolsWithoutWorkers") return ["/ops/workers", "opsWorkers"];
  if (reading === "triggerLag" || reading === "runBacklog") return [`/ops/charts${search({ board: "jobs" })}`, "opsCharts"];
  if (reading === "runFailures") return [`/ops/runs${search({ state: "FAILED" })}`, "opsRuns"];
  if (reading.startsWith("redis") || reading === "outboxOldest") return [`/ops/charts${search({ board: "service" })}`, "opsCharts"];
  return [`/ops/tasks${search({ status: "QUEUED" })}`, "opsTasks"];
}

export function figure(value: number | null, unit: string): string {
  if (value === null) return "–";
  const text = number(Math.round(value * 10) / 10);
  if (unit === "%") return `${text} %`;
  const named = value === 1 && valueText("one", unit) !== unit ? valueText("one", unit) : valueText("unit", unit);
  return named === "count" || named === "" ? text : `${text} ${named}`;
}

/** When a queue last became non-empty, from the series of its depth. */
export function filledSince(series: Schemas["SeriesBody"] | undefined, queue: string): string | null {
  const points = (series?.points ?? []).filter((point) => point.queue === queue).sort((a, b) => a.at.localeCompare(b.at));
  let since: string | null = null;
  for (const point of points) since = point.value > 0 ? (since ?? point.at) : null;
  return since;
}
