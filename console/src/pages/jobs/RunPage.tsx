import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { OwnFault } from "@/api/errors";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, duration, locale, number, useT, valueText } from "@/i18n";
import { Act } from "@/ui/Act";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { search, usePaged } from "@/ui/lists";
import { RUN_STYLES } from "./data";
import { Result } from "./Result";

type LogLine = Schemas["LogLineBody"];

const LIVE = new Set(["PENDING", "RUNNING", "RETRYING"]);
const LEVEL_STYLES: Record<string, string> = { ERROR: "bad", WARN: "warn", INFO: "" };

export default function RunPage() {
  const t = useT();
  const client = useQueryClient();
  const { runId = "" } = useParams();
  const [params] = useSearchParams();
  const [isOfTenant, isOfPlatform] = [useAllowed("job.ops"), useAllowed("ops.write")];
  // Set by operators, who look at the run of another tenant.
  const tenantId = params.get("tenantId");
  const mayOperate = tenantId ? isOfPlatform : isOfTenant;
  const found = useQuery({ queryKey: ["runs", "one", runId], queryFn: () => call(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: runId }, query: { tenantId: tenantId ?? undefined } } })), refetchInterval: ({ state }) => (state.data && !LIVE.has(state.data.state) ? false : 2000) });
  const logs = usePaged<LogLine>(["runs", runId, "logs"], `/runs/${runId}/logs`, { limit: 100, tenantId }, { everyMs: found.data && LIVE.has(found.data.state) ? 2000 : undefined });
  const run = found.data;
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!run) return <Waiting />;
  const act = async (verb: "replay" | "terminate") => {
    const init = { params: { path: { run_id: runId } } };
    const all = { body: { ids: [runId] } };
    if (tenantId) {
      const { count } = await (verb === "replay" ? call(api.POST("/api/v1/ops/runs/retry", all)) : call(api.POST("/api/v1/ops/runs/cancel", all)));
      if (count === 0) throw new OwnFault("jobNotAllowed");
    } else await (verb === "replay" ? call(api.POST("/api/v1/runs/{run_id}/replay", init)) : call(api.POST("/api/v1/runs/{run_id}/terminate", init)));
    await client.invalidateQueries({ queryKey: ["runs"] });
  };
  return (
    <Page
      title={t("jobRunTitle", { time: dateTime(run.scheduledTime) })}
      text={
        <>
          <Link to={`/jobs/${run.jobId}${search({ tenantId })}`}>{t("jobBackToJob")}</Link> · <code>{run.runId}</code>
        </>
      }
      actions={mayOperate ? LIVE.has(run.state) ? <Act key="terminate" danger size="middle" text={t("jobTerminate")} run={() => act("terminate")} /> : <Act key="replay" size="middle" text={t("jobReplay")} run={() => act("replay")} /> : null}
    >
      <div className="stack loose">
        <dl className="card job-facts">
          <div>
            <dt>{t("jobStatus")}</dt>
            <dd>
              <span className={`tag ${RUN_STYLES[run.state] ?? ""}`}>{valueText("run", run.state)}</span>
            </dd>
          </div>
          <div>
            <dt>{t("jobKind")}</dt>
            <dd>{valueText("run", run.kind)}</dd>
          </div>
          <div>
            <dt>{t("jobAttempt")}</dt>
            <dd>{number(run.attempt)}</dd>
          </div>
          <div>
            <dt>{t("jobStartDelay")}</dt>
            <dd>{run.startedAt && run.attempt <= 1 ? duration((Date.parse(run.startedAt) - Date.parse(run.scheduledTime)) / 1000) : "–"}</dd>
          </div>
          <div>
            <dt>{t("jobTook")}</dt>
            <dd>{run.startedAt && run.endedAt ? duration((Date.parse(run.endedAt) - Date.parse(run.startedAt)) / 1000) : "–"}</dd>
          </div>
          <div>
            <dt>{t("jobResult")}</dt>
            <dd>
              <Result run={run} />
            </dd>
          </div>
          {run.taskId ? (
            <div>
              <dt>{t("jobTask")}</dt>
              <dd>
                <Link to={tenantId ? `/ops/tasks/${run.taskId}` : `/tasks/${run.taskId}`}>{run.taskId}</Link>
              </dd>
            </div>
          ) : null}
        </dl>
        {run.answer ? (
          <section className="stack tight" aria-labelledby="job-answer">
            <h2 id="job-answer">{t("jobAnswer")}</h2>
            <pre className="job-answer">{run.answer}</pre>
          </section>
        ) : null}
        <section className="stack" aria-labelledby="job-log">
          <h2 id="job-log">{t("jobLog")}</h2>
          <DataTable<LogLine>
            label={t("jobLog")}
            source={logs}
            rowKey={(line) => `${line.at}${line.attempt}${line.message}`}
            empty={t("jobNoLog")}
            columns={[
              { title: t("jobTime"), cell: (line) => <span className="digits">{new Date(line.at).toLocaleTimeString(locale())}</span> },
              { title: t("jobAttempt"), isNumber: true, cell: (line) => number(line.attempt) },
              { title: t("jobLevel"), cell: (line) => <span className={`tag ${LEVEL_STYLES[line.level] ?? ""}`}>{valueText("level", line.level)}</span> },
              { title: t("jobMessage"), cell: (line) => <code>{line.message}</code> },
            ]}
          />
        </section>
      </div>
    </Page>
  );
}
