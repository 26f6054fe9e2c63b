import { App, Button, Input, Select } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, number, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { useTenantName } from "./data";
import { localTime } from "./Tasks";

type Run = Schemas["OpsRunBody"];

export const RUN_STYLES: Record<string, string> = { SUCCESS: "good", FAILED: "bad", TERMINATED: "", RUNNING: "live", RETRYING: "warn", PENDING: "" };
const STATES = ["PENDING", "RUNNING", "RETRYING", "SUCCESS", "FAILED", "TERMINATED"];

/** Runs of the jobs of all tenants. */
export default function Runs() {
  const t = useT();
  const ask = useReason();
  const tenantName = useTenantName();
  const client = useQueryClient();
  const { message } = App.useApp();
  const mayWrite = useAllowed("ops.write");
  const [params, setParams] = useSearchParams();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const found = usePaged<Run>(["ops", "runs"], "/ops/runs", { state: params.get("state"), jobId: params.get("jobId"), tenantId: params.get("tenantId"), from: params.get("from"), to: params.get("to") }, { everyMs: 15_000 });
  const change = (name: string, value: string | null | undefined) =>
    setParams((before) => {
      if (value) before.set(name, value);
      else before.delete(name);
      return before;
    });
  const act = (verb: "retry" | "cancel") =>
    ask({
      title: t(verb === "retry" ? "opsRetryRunsTitle" : "opsCancelRunsTitle", { count: number(chosen.size) }),
      text: t(verb === "retry" ? "opsRetryRunsText" : "opsCancelRunsText"),
      action: t(verb === "retry" ? "opsRetryRuns" : "opsCancelRuns"),
      isDanger: verb === "cancel",
      isReasonNeeded: false,
      run: async () => {
        const body = { ids: [...chosen] };
        const { count } = await (verb === "retry" ? call(api.POST("/api/v1/ops/runs/retry", { body })) : call(api.POST("/api/v1/ops/runs/cancel", { body })));
        void message.info(t("opsActed", { done: number(count), refused: number(body.ids.length - count) }));
        setChosen(new Set());
        await client.invalidateQueries({ queryKey: ["ops", "runs"] });
      },
    });
  const failed = found.items.filter((run) => run.state === "FAILED").length;
  return (
    <Page title={t("opsRuns")} text={t("opsRunsHint")}>
      <div className="ops-filter">
        <label>
          {t("opsState")}
          <Select allowClear style={{ minWidth: 150 }} value={params.get("state")} onChange={(value) => change("state", value)} options={STATES.map((value) => ({ value, label: valueText("run", value) }))} />
        </label>
        <label>
          {t("opsFrom")}
          <Input type="datetime-local" value={localTime(params.get("from"))} onChange={({ target }) => change("from", target.value ? new Date(target.value).toISOString() : null)} />
        </label>
        <label>
          {t("opsTo")}
          <Input type="datetime-local" value={localTime(params.get("to"))} onChange={({ target }) => change("to", target.value ? new Date(target.value).toISOString() : null)} />
        </label>
        {mayWrite ? (
          <>
            <Button disabled={chosen.size === 0} onClick={() => act("retry")}>
              {t("opsRetryRuns")}
            </Button>
            <Button danger disabled={chosen.size === 0} onClick={() => act("cancel")}>
              {t("opsCancelRuns")}
            </Button>
          </>
        ) : null}
      </div>
      {found.items.length ? <p className="soft" style={{ marginBottom: 10 }}>{t("opsRunsSummary", { count: number(found.items.length), failed: number(failed) })}</p> : null}
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
          { title: t("opsErrorTitle"), cell: (run) => run.lastError ?? run.waitingFor ?? "–" },
        ]}
      />
    </Page>
  );
}
