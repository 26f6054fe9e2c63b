import { Button, Form, Input, InputNumber, Modal, Radio, Segmented, Select } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, number, useLanguage, useT, valueText } from "@/i18n";
import { Act } from "@/ui/Act";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { useSubmit } from "@/ui/forms";
import { search, usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { JOB_STYLES, RUN_STYLES, type Job, type Run } from "./data";
import { Result } from "./Result";

type Fire = Schemas["ReportedFireBody"];
type Backfill = Schemas["BackfillBody"];
const CATCH_UPS = ["none", "once", "all"] as const;
const REPROCESS = ["none", "failed", "completed"] as const;
const BAD_FIRES = new Set(["UNACCOUNTED", "MISFIRED", "PREDECESSOR_FAILED", "TENANT_SUSPENDED"]);

export default function JobPage() {
  const t = useT();
  const language = useLanguage();
  const ask = useReason();
  const navigate = useNavigate();
  const client = useQueryClient();
  const { jobId = "" } = useParams();
  const [isOperator, isRunner, isWriter] = [useAllowed("job.ops"), useAllowed("job.run"), useAllowed("job.write")];
  const [params] = useSearchParams();
  // Set by operators, who look at the job of another tenant.
  const tenantId = params.get("tenantId") ?? undefined;
  const [isFilling, setFilling] = useState(false);
  const [isResuming, setResuming] = useState(false);
  const [days, setDays] = useState<number | null>(null);
  const path = { job_id: jobId };
  const found = useQuery({ queryKey: ["jobs", jobId, tenantId, language], queryFn: () => call(api.GET("/api/v1/jobs/{job_id}", { params: { path, query: { tenantId } } })) as Promise<Job> });
  const runs = usePaged<Run>(["runs", jobId], "/runs", { jobId, tenantId }, { everyMs: 5000 });
  const fires = usePaged<Fire>(["jobs", jobId, "fires"], `/jobs/${jobId}/fires`, { from: daysAgo(found.dataUpdatedAt, days ?? 1), tenantId, limit: 100 }, { isEnabled: days !== null });
  const job = found.data;
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!job) return <Waiting />;
  const isPaused = job.status === "PAUSED";
  const [mayOperate, mayRun, mayWrite] = [isOperator && !tenantId, isRunner && !tenantId, isWriter && !tenantId];
  const refresh = () => Promise.all([client.invalidateQueries({ queryKey: ["jobs"] }), client.invalidateQueries({ queryKey: ["runs"] })]);
  const trigger = async () => {
    await call(api.POST("/api/v1/jobs/{job_id}/trigger", { params: { path } }));
    await refresh();
  };
  const pause = () =>
    ask({
      title: t("jobPauseTitle", { name: job.name }),
      text: t("jobPauseText"),
      action: t("jobPause"),
      run: async (note) => {
        await call(api.POST("/api/v1/jobs/{job_id}/pause", { params: { path }, body: { note } }));
        await refresh();
      },
    });
  const remove = () =>
    ask({
      title: t("jobDeleteTitle", { name: job.name }),
      text: t("jobDeleteText"),
      action: t("delete"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await call(api.DELETE("/api/v1/jobs/{job_id}", { params: { path } }));
        await client.invalidateQueries({ queryKey: ["jobs"] });
        void navigate("/jobs");
      },
    });
  return (
    <Page
      title={job.name}
      text={
        <>
          {tenantId ? <Link to="/ops/runs">{t("opsRuns")}</Link> : <Link to="/jobs">{t("navJobs")}</Link>} · {job.description}
        </>
      }
      actions={
        <>
          {mayRun ? <Act type="primary" size="middle" text={t("jobTrigger")} done={t("jobTriggered")} run={trigger} /> : null}
          {mayRun ? <Button onClick={() => setFilling(true)}>{t("jobBackfill")}</Button> : null}
          {mayOperate && job.status !== "COMPLETED" ? <Button onClick={isPaused ? () => setResuming(true) : pause}>{t(isPaused ? "jobResume" : "jobPause")}</Button> : null}
          {mayWrite ? (
            <Button danger onClick={remove}>
              {t("delete")}
            </Button>
          ) : null}
        </>
      }
    >
      <div className="stack loose">
        <dl className="card job-facts">
          <div>
            <dt>{t("jobStatus")}</dt>
            <dd>
              <span className={`tag ${JOB_STYLES[job.status] ?? ""}`}>{valueText("job", job.status)}</span> {job.note ? <span className="soft">{job.note}</span> : null}
            </dd>
          </div>
          <div>
            <dt>{t("jobNext")}</dt>
            <dd>{job.nextFireTime ? dateTime(job.nextFireTime) : "–"}</dd>
          </div>
          <div>
            <dt>{t("jobPriority")}</dt>
            <dd>{valueText("jobPriority", job.priority)}</dd>
          </div>
          <div>
            <dt>{t("jobZone")}</dt>
            <dd>{job.schedule.timezone}</dd>
          </div>
          <div>
            <dt>{t("jobDoes")}</dt>
            <dd>
              <code>{taskLine(job.task as Record<string, unknown>)}</code>
            </dd>
          </div>
          <div>
            <dt>{t("jobOverlap")}</dt>
            <dd>{valueText("overlap", job.overlapPolicy)}</dd>
          </div>
          <div>
            <dt>{t("jobMisfire")}</dt>
            <dd>{valueText("misfire", job.misfirePolicy)}</dd>
          </div>
        </dl>
        <section className="stack" aria-labelledby="job-runs">
          <h2 id="job-runs">{t("jobRuns")}</h2>
          <DataTable<Run>
            label={t("jobRuns")}
            source={runs}
            rowKey={(run) => run.runId}
            empty={t("jobNoRuns")}
            columns={[
              { title: t("jobScheduled"), cell: (run) => <Link to={`/jobs/runs/${run.runId}${search({ tenantId })}`}>{dateTime(run.scheduledTime)}</Link> },
              { title: t("jobKind"), cell: (run) => valueText("run", run.kind) },
              { title: t("jobStatus"), cell: (run) => <span className={`tag ${RUN_STYLES[run.state] ?? ""}`}>{valueText("run", run.state)}</span> },
              { title: t("jobAttempt"), isNumber: true, cell: (run) => number(run.attempt) },
              { title: t("jobResult"), cell: (run) => <Result run={run} /> },
            ]}
          />
        </section>
        <section className="stack" aria-labelledby="job-fires">
          <div className="row between">
            <div>
              <h2 id="job-fires">{t("jobFires")}</h2>
              <p className="soft">{t("jobFiresHint")}</p>
            </div>
            <Segmented<number> aria-label={t("jobFires")} value={days ?? 0} onChange={(value) => setDays(value)} options={[1, 7, 28].map((value) => ({ value, label: t(`jobFires_${value as 1}`) }))} />
          </div>
          {days !== null ? (
            <DataTable<Fire>
              label={t("jobFires")}
              source={fires}
              rowKey={(fire) => fire.scheduledTime}
              empty={t("jobNoFires")}
              columns={[
                { title: t("jobScheduled"), cell: (fire) => dateTime(fire.scheduledTime) },
                { title: t("jobOutcome"), cell: (fire) => <span className={`tag ${fire.outcome === "RUN" ? "good" : BAD_FIRES.has(fire.outcome) ? "bad" : ""}`}>{valueText("fire", fire.outcome)}</span> },
                { title: t("reason"), cell: (fire) => <span translate="no">{fire.reason || "–"}</span> },
                { title: t("jobRun"), cell: (fire) => (fire.runId ? <Link to={`/jobs/runs/${fire.runId}${search({ tenantId })}`} aria-label={t("jobRunTitle", { time: dateTime(fire.scheduledTime) })}>{t("jobOpenRun")}</Link> : "–") },
              ]}
            />
          ) : null}
        </section>
        {mayRun ? <Backfills jobId={jobId} /> : null}
      </div>
      {isFilling ? <BackfillForm jobId={jobId} close={() => setFilling(false)} refresh={refresh} /> : null}
      {isResuming ? <ResumeForm job={job} close={() => setResuming(false)} refresh={refresh} /> : null}
    </Page>
  );
}

const daysAgo = (now: number, days: number): string => new Date(Math.floor((now - days * 86_400_000) / 60_000) * 60_000).toISOString();

/** Goes on with a paused job, and says what becomes of the fires of the pause. */
function ResumeForm({ job, close, refresh }: { job: Job; close: () => void; refresh: () => Promise<unknown> }) {
  const t = useT();
  const [form] = Form.useForm<{ catchUp: (typeof CATCH_UPS)[number] }>();
  const { submit, fault, isSending } = useSubmit(form, async ({ catchUp }) => {
    await call(api.POST("/api/v1/jobs/{job_id}/resume", { params: { path: { job_id: job.jobId } }, body: { catchUp } }));
    await refresh();
    close();
  });
  return (
    <Modal open title={t("jobResumeTitle", { name: job.name })} onCancel={close} okText={t("jobResume")} okButtonProps={{ loading: isSending }} onOk={form.submit}>
      <Form form={form} layout="vertical" initialValues={{ catchUp: "none" }} onFinish={(values) => void submit(values)}>
        {job.pausedAt ? <p className="soft">{t("jobPausedSince", { time: dateTime(job.pausedAt) })}</p> : null}
        <Form.Item name="catchUp" label={t("jobCatchUp")}>
          <Radio.Group options={CATCH_UPS.map((value) => ({ value, label: t(`jobCatchUp_${value}`) }))} />
        </Form.Item>
        <Fault error={fault} />
      </Form>
    </Modal>
  );
}

const BACKFILL_STYLES: Record<string, string> = { RUNNING: "live", COMPLETED: "good", CANCELLED: "" };

/** The backfills of a job. One that runs can be stopped. */
function Backfills({ jobId }: { jobId: string }) {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const found = usePaged<Backfill>(["backfills", jobId], "/backfills", { jobId }, { everyMs: 5000 });
  if (found.isPending || (found.items.length === 0 && !found.error)) return null;
  const stop = (backfill: Backfill) =>
    ask({
      title: t("jobBackfillStopTitle"),
      text: t("jobBackfillStopText", { count: number(backfill.remaining) }),
      action: t("jobBackfillStop"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await call(api.DELETE("/api/v1/backfills/{backfill_id}", { params: { path: { backfill_id: backfill.backfillId } } }));
        await client.invalidateQueries({ queryKey: ["backfills"] });
      },
    });
  return (
    <section className="stack" aria-labelledby="job-backfills">
      <h2 id="job-backfills">{t("jobBackfills")}</h2>
      <DataTable<Backfill>
        label={t("jobBackfills")}
        source={found}
        rowKey={(one) => one.backfillId}
        empty={t("opsNothing")}
        columns={[
          { title: t("walFrom"), cell: (one) => dateTime(one.from) },
          { title: t("jobToExclusive"), cell: (one) => dateTime(one.to) },
          { title: t("jobStatus"), cell: (one) => <span className={`tag ${BACKFILL_STYLES[one.status] ?? ""}`}>{valueText("backfill", one.status)}</span> },
          { title: t("jobProgress"), isNumber: true, cell: (one) => t("jobBackfillProgress", { done: number(one.done), total: number(one.total), failed: number(one.failed) }) },
          {
            title: t("opsActions"),
            isQuiet: true,
            cell: (one) =>
              one.status === "RUNNING" ? (
                <Button size="small" danger onClick={() => stop(one)}>
                  {t("jobBackfillStop")}
                </Button>
              ) : null,
          },
        ]}
      />
    </section>
  );
}

function taskLine(task: Record<string, unknown>): string {
  if (task.type === "HTTP") return `${String(task.method ?? "POST")} ${String(task.url)}`;
  return task.type === "TASK" ? String(task.tool) : `FLOW ${String(task.name ?? "")}`;
}

interface BackfillValues {
  from: string;
  to: string;
  parallelism: number;
  reprocess: (typeof REPROCESS)[number];
}

/** Runs for times that have passed: first how many, then for real. */
function BackfillForm({ jobId, close, refresh }: { jobId: string; close: () => void; refresh: () => Promise<unknown> }) {
  const t = useT();
  const client = useQueryClient();
  const [form] = Form.useForm<BackfillValues>();
  const [planned, setPlanned] = useState<number | null>(null);
  const [started, setStarted] = useState<string | null>(null);
  const progress = useQuery({
    queryKey: ["backfills", "one", started],
    enabled: started !== null,
    queryFn: () => call(api.GET("/api/v1/backfills/{backfill_id}", { params: { path: { backfill_id: started! } } })),
    refetchInterval: ({ state }) => (state.data?.status === "RUNNING" || !state.data ? 2000 : false),
  });
  const { submit, fault, isSending } = useSubmit(form, async (values) => {
    const range = { ...values, from: new Date(values.from).toISOString(), to: new Date(values.to).toISOString() };
    const answer = await call(api.POST("/api/v1/jobs/{job_id}/backfill", { params: { path: { job_id: jobId } }, body: { ...range, dryRun: planned === null } }));
    if (planned === null) setPlanned(answer.acceptedRuns);
    else {
      setStarted(answer.backfillId);
      // The dialog shows the progress at once; the lists follow.
      void Promise.all([refresh(), client.invalidateQueries({ queryKey: ["backfills"] })]);
    }
  });
  const required = [{ required: true, message: t("required") }];
  return (
    <Modal open title={t("jobBackfill")} onCancel={close} okText={started ? t("close") : t(planned === null ? "jobBackfillPlan" : "jobBackfillStart")} okButtonProps={{ loading: isSending }} onOk={started ? close : form.submit}>
      <Form<BackfillValues> form={form} layout="vertical" initialValues={{ parallelism: 1, reprocess: "none" }} disabled={started !== null} onValuesChange={() => setPlanned(null)} onFinish={(values) => void submit(values)}>
        <p className="soft" style={{ marginBottom: 12 }}>
          {t("jobBackfillHint")}
        </p>
        <Form.Item name="from" label={t("walFrom")} rules={required}>
          <Input type="datetime-local" />
        </Form.Item>
        <Form.Item name="to" label={t("jobToExclusive")} rules={required}>
          <Input type="datetime-local" />
        </Form.Item>
        <Form.Item name="parallelism" label={t("jobParallelism")}>
          <InputNumber min={1} max={100} precision={0} style={{ width: "100%" }} />
        </Form.Item>
        <Form.Item name="reprocess" label={t("jobReprocess")}>
          <Select options={REPROCESS.map((value) => ({ value, label: t(`jobReprocess_${value}`) }))} />
        </Form.Item>
        <Fault error={fault ?? progress.error} />
        <p role="status">
          {started && progress.data ? t("jobBackfillProgress", { done: number(progress.data.done), total: number(progress.data.total), failed: number(progress.data.failed) }) : planned === null ? "" : t("jobBackfillPlanned", { count: number(planned) })}
        </p>
      </Form>
    </Modal>
  );
}
