import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { raw } from "@/api/raw";
import { useLabel } from "@/api/dictionaries";
import type { Schemas } from "@/api/types";
import { dateTime, number, relative, useT, valueText } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { search } from "@/ui/lists";
import { midnight, useDeadLetterQueues, useHealth, useInvariants, useLanes } from "./data";

interface Problem {
  key: string;
  isBad: boolean;
  text: ReactNode;
  since: string | null;
  to: string;
  action: string;
}

interface Audit {
  items: { target: string; at: string; details: Record<string, unknown> }[];
}

export default function Overview() {
  const t = useT();
  const label = useLabel();
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
    queryFn: () => raw<Audit>("GET", "/ops/audit?action=lane.changed&limit=100"),
  });
  const letters = useQuery({
    queryKey: ["ops", "series", "dead_letters", "since"],
    enabled: filled.length > 0,
    queryFn: () => raw<Schemas["SeriesBody"]>("GET", `/ops/series${search({ name: "dead_letters", from: new Date(Date.now() - 7 * 86_400_000).toISOString(), step: 3600 })}`),
  });
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
      .map(([name, answer]) => ({ key: `check-${name}`, isBad: true, text: t("opsCheckFails", { name, state: valueText("check", answer) }), since: null, to: "/ops/charts", action: t("opsCharts") })),
    ...health.data.readings
      .filter((reading) => !reading.ok)
      .map((reading) => ({
        key: `reading-${reading.name}`,
        isBad: true,
        text: t("opsReadingHigh", { name: valueText("reading", reading.name), value: figure(reading.value, reading.unit), limit: figure(reading.limit, reading.unit) }),
        since: null,
        to: "/ops/charts",
        action: t("opsCharts"),
      })),
    ...(health.data.circuits ?? []).map((circuit) => ({
      key: `circuit-${circuit.pool}-${circuit.step}`,
      isBad: true,
      text: t("opsCircuitOpen", { step: label("steps", circuit.step), pool: circuit.pool, error: circuit.lastError }),
      since: circuit.openedAt,
      to: `/ops/tasks${search({ status: "FAILED", from: midnight() })}`,
      action: t("opsFailedTasks"),
    })),
    ...(invariants.data?.checks ?? [])
      .filter((check) => !check.ok)
      .map((check) => ({ key: `invariant-${check.name}`, isBad: true, text: t("opsInvariantBroken", { name: valueText("invariant", check.name), count: number(check.violations.length) }), since: null, to: "/ops/checks", action: t("opsChecks") })),
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
    ...filled.map((queue) => ({ key: `dlq-${queue.queue}`, isBad: false, text: t("opsQueueFilled", { queue: queue.queue, count: number(queue.depth) }), since: filledSince(letters.data, queue.queue), to: "/ops/dead-letters", action: t("opsDeadLetters") })),
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
              <span className="soft">{Object.entries(health.data.checks).map(([name, answer]) => `${name}: ${valueText("check", answer)}`).join(" · ")}</span>
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

export function figure(value: number | null, unit: string): string {
  if (value === null) return "–";
  const text = number(Math.round(value * 10) / 10);
  if (unit === "%") return `${text} %`;
  const named = valueText("unit", unit);
  return named === "count" || named === "" ? text : `${text} ${named}`;
}

/** When a queue last became non-empty, from the series of its depth. */
export function filledSince(series: Schemas["SeriesBody"] | undefined, queue: string): string | null {
  const points = (series?.points ?? []).filter((point) => point.queue === queue).sort((a, b) => a.at.localeCompare(b.at));
  let since: string | null = null;
  for (const point of points) since = point.value > 0 ? (since ?? point.at) : null;
  return since;
}
