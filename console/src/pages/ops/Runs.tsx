import { Button, Checkbox, Input, Select } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, duration, number, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { RUN_STYLES } from "../jobs/data";
import { Result } from "../jobs/Result";
import { useHealth, useTenantName } from "./data";
import { OutcomeLine, type Outcome } from "./Outcome";
import { localTime } from "./Tasks";
import { TenantFilter } from "./TenantFilter";

type Run = Schemas["OpsRunBody"];

const KINDS = ["SCHEDULED", "CATCHUP", "MANUAL", "BACKFILL"];
const STATES = ["PENDING", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "TERMINATED"];

/** Runs of the jobs of all tenants. */
export default function Runs() {
  const t = useT();
  const ask = useReason();
  const tenantName = useTenantName();
  const client = useQueryClient();
  const mayWrite = useAllowed("ops.write");
  const [params, setParams] = useSearchParams();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const found = usePaged<Run>(["ops", "runs"], "/ops/runs", { state: params.get("state"), kind: params.get("kind"), jobId: params.get("jobId"), deadLetter: params.get("deadLetter"), tenantId: params.get("tenantId"), from: params.get("from"), to: params.get("to") }, { everyMs: 15_000 });
  const change = (name: string, value: string | null | undefined) => {
    setChosen(new Set());
    setParams((before) => {
      if (value) before.set(name, value);
      else before.delete(name);
      return before;
    });
  };
  const act = (verb: "retry" | "cancel") =>
    ask({
      title: t(verb === "retry" ? "opsRetryRunsTitle" : "opsCancelRunsTitle", { count: number(chosen.size) }),
      text: t(verb === "retry" ? "opsRetryRunsText" : "opsCancelRunsText"),
      action: t(verb === "retry" ? "opsRetryRuns" : "opsCancelRuns"),
      isDanger: verb === "cancel",
      isReasonNeeded: false,
      run: async () => {
        const body = { ids: [...chosen] };
        const { ids } = await (verb === "retry" ? call(api.POST("/api/v1/ops/runs/retry", { body })) : call(api.POST("/api/v1/ops/runs/cancel", { body })));
        setOutcome({ done: ids.length, refused: body.ids.filter((id) => !ids.includes(id)).map((id) => ({ id, code: null })) });
        setChosen(new Set());
        await client.invalidateQueries({ queryKey: ["ops", "runs"] });
      },
    });
  return (
    <Page title={t("opsRuns")} text={t("opsRunsHint")}>
      <div className="ops-filter">
        <label>
          {t("opsState")}
          <Select allowClear style={{ minWidth: 150 }} value={params.get("state")} onChange={(value) => change("state", value)} options={STATES.map((value) => ({ value, label: valueText("run", value) }))} />
        </label>
        <label>
          {t("opsKind")}
          <Select allowClear style={{ minWidth: 130 }} value={params.get("kind")} onChange={(value) => change("kind", value)} options={KINDS.map((value) => ({ value, label: valueText("run", value) }))} />
        </label>
        <Checkbox checked={params.get("deadLetter") === "true"} onChange={({ target }) => change("deadLetter", target.checked ? "true" : null)}>
          {t("opsDeadOnly")}
        </Checkbox>
        <TenantFilter value={params.get("tenantId")} change={(value) => change("tenantId", value)} />
        <label>
          {t("opsFrom")}
          <Input type="datetime-local" value={localTime(params.get("from"))} onChange={({ target }) => change("from", target.value ? new Date(target.value).toISOString() : null)} />
        </label>
        <label>
          {t("opsTo")}
          <Input type="datetime-local" value={localTime(params.get("to"))} onChange={({ target }) => change("to", target.value ? new Date(target.value).toISOString() : null)} />
        </label>
      </div>
      {mayWrite ? (
        <div className="row" style={{ marginBottom: 12 }}>
          <span className="soft">{t("opsChosen", { count: number(chosen.size) })}</span>
          <Button disabled={chosen.size === 0} onClick={() => act("retry")}>
            {t("opsRetryRuns")}
          </Button>
          <Button danger disabled={chosen.size === 0} onClick={() => act("cancel")}>
            {t("opsCancelRuns")}
          </Button>
          <OutcomeLine outcome={outcome} />
        </div>
      ) : null}
      {params.get("jobId") ? (
        <p className="row" style={{ marginBottom: 10 }}>
          <span className="soft">{t("opsOneJob")}</span>
          <Button size="small" onClick={() => change("jobId", null)}>
            {t("opsAllJobs")}
          </Button>
        </p>
      ) : null}
      <Fired from={params.get("from")} to={params.get("to")} />
      <DataTable<Run>
        label={t("opsRuns")}
        source={found}
        rowKey={(run) => run.runId}
        rowName={(run) => `${run.jobName} ${dateTime(run.scheduledTime)}`}
        choice={mayWrite ? { chosen, change: setChosen } : undefined}
        empty={t("opsNoRuns")}
        columns={[
          { title: t("opsJob"), cell: (run) => <Link to={`/jobs/runs/${run.runId}?tenantId=${run.tenantId}`}>{run.jobName}</Link> },
          { title: t("opsTenant"), cell: (run) => tenantName(run.tenantId) },
          { title: t("opsScheduled"), cell: (run) => dateTime(run.scheduledTime) },
          { title: t("opsKind"), cell: (run) => valueText("run", run.kind) },
          { title: t("opsState"), cell: (run) => <span className={`tag ${RUN_STYLES[run.state] ?? ""}`}>{valueText("run", run.state)}</span> },
          { title: t("opsAttemptTitle"), isNumber: true, cell: (run) => number(run.attempt) },
          { title: t("opsErrorTitle"), cell: (run) => <Result run={run} /> },
          { title: t("opsActions"), isQuiet: true, cell: (run) => <Link to={`/jobs/${run.jobId}?tenantId=${run.tenantId}`} aria-label={`${t("opsOpenJob")} ${run.jobName}`}>{t("opsOpenJob")}</Link> },
        ]}
      />
    </Page>
  );
}

const LONGEST_MS = 28 * 86_400_000;

/** Whether every fire of the range became a run or a note, and how its runs ended. */
function Fired({ from, to }: { from: string | null; to: string | null }) {
  const t = useT();
  const health = useHealth();
  const range = useMemo(() => rangeOf(from, to), [from, to]);
  const ended = useQuery({
    queryKey: ["ops", "series", "runs_ended", "sum", range],
    refetchInterval: 60_000,
    queryFn: () => call(api.GET("/api/v1/ops/series", { params: { query: { name: "runs_ended", ...range } } })),
  });
  const lag = health.data?.readings.find((reading) => reading.name === "triggerLag");
  const backlog = health.data?.readings.find((reading) => reading.name === "runBacklog");
  if (!lag || !backlog || !ended.data) return null;
  const counts = countsOf(ended.data.points);
  return (
    <div className={`card stack tight ops-fired ${lag.ok ? "" : "bad"}`} role="status">
      <strong>{t(lag.ok ? "opsAllFired" : "opsNotAllFired", { lag: duration(lag.value ?? 0) })}</strong>
      <span>
        {t("opsRunsEnded", { from: dateTime(range.from), count: number(Object.values(counts).reduce((sum, one) => sum + one, 0)) })}
        {Object.entries(counts).map(([state, count]) => ` · ${valueText("run", state)} ${number(count)}`)}
        {` · ${t("opsRunsDue", { count: number(backlog.value ?? 0) })}`}
      </span>
    </div>
  );
}

/** The sum of each status. */
export function countsOf(points: (Schemas["PointBody"] & { status?: string })[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const point of points) sums[point.status ?? ""] = (sums[point.status ?? ""] ?? 0) + point.value;
  return sums;
}

/** A range that the series allow: whole hours, 28 days at most, the last day if none is given. */
export function rangeOf(from: string | null, to: string | null, now: number = Date.now()): { from: string; to: string; step: number } {
  const end = to ? Date.parse(to) : now;
  const start = Math.max(from ? Date.parse(from) : end - 86_400_000, end - LONGEST_MS);
  const whole = (at: number, round: (value: number) => number) => new Date(round(at / 3_600_000) * 3_600_000).toISOString();
  return { from: whole(Math.min(start, end - 1), Math.floor), to: whole(end, Math.ceil), step: 3600 };
}
