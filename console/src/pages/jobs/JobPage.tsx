import { App, Button, Checkbox, Form, Input, InputNumber, Modal } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { api, call } from "@/api/client";
import { errorText } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import { raw } from "@/api/raw";
import { dateTime, number, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { isBackingOff, JOB_STYLES, RUN_STYLES, type Job, type Run } from "./data";

interface Fire {
  scheduledTime: string;
  outcome: string;
  reason: string | null;
  runId?: string | null;
}

interface Backfill {
  backfillId: string;
  jobId?: string;
  status: string;
  total: number;
  done: number;
  failed: number;
  remaining: number;
}

export default function JobPage() {
  const t = useT();
  const ask = useReason();
  const navigate = useNavigate();
  const client = useQueryClient();
  const { message } = App.useApp();
  const { jobId = "" } = useParams();
  const [mayOperate, mayRun, mayWrite] = [useAllowed("job.ops"), useAllowed("job.run"), useAllowed("job.write")];
  const [isFilling, setFilling] = useState(false);
  const [showsFires, setShowsFires] = useState(false);
  const path = { job_id: jobId };
  const found = useQuery({ queryKey: ["jobs", jobId], queryFn: () => call(api.GET("/api/v1/jobs/{job_id}", { params: { path } })) as Promise<Job> });
  const runs = usePaged<Run>(["runs", jobId], "/runs", { jobId }, { everyMs: 5000 });
  const fires = usePaged<Fire>(["jobs", jobId, "fires"], `/jobs/${jobId}/fires`, { from: lastDay(found.dataUpdatedAt) }, { isEnabled: showsFires });
  const job = found.data;
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!job) return <Waiting />;
  const isPaused = job.status === "PAUSED";
  const refresh = () => Promise.all([client.invalidateQueries({ queryKey: ["jobs"] }), client.invalidateQueries({ queryKey: ["runs"] })]);
  const trigger = async () => {
    try {
      const { runId } = await call(api.POST("/api/v1/jobs/{job_id}/trigger", { params: { path } }));
      void message.success(t("jobTriggered"));
      await refresh();
      void runId;
    } catch (error) {
      void message.error(errorText(error));
    }
  };
  const resume = async () => {
    try {
      await call(api.POST("/api/v1/jobs/{job_id}/resume", { params: { path }, body: null as never }));
    } catch (error) {
      void message.error(errorText(error));
    }
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
          <Link to="/jobs">{t("navJobs")}</Link> · {job.description}
        </>
      }
      actions={
        <>
          {mayRun ? (
            <Button type="primary" onClick={() => void trigger()}>
              {t("jobTrigger")}
            </Button>
          ) : null}
          {mayRun ? <Button onClick={() => setFilling(true)}>{t("jobBackfill")}</Button> : null}
          {mayOperate && job.status !== "COMPLETED" ? <Button onClick={isPaused ? () => void resume() : pause}>{t(isPaused ? "jobResume" : "jobPause")}</Button> : null}
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
              { title: t("jobScheduled"), cell: (run) => <Link to={`/jobs/runs/${run.runId}`}>{dateTime(run.scheduledTime)}</Link> },
              { title: t("jobKind"), cell: (run) => valueText("run", run.kind) },
              { title: t("jobStatus"), cell: (run) => <span className={`tag ${RUN_STYLES[run.state] ?? ""}`}>{valueText("run", run.state)}</span> },
              { title: t("jobAttempt"), isNumber: true, cell: (run) => number(run.attempt) },
              { title: t("jobResult"), cell: (run) => (isBackingOff(run) ? t("jobBackingOff", { time: dateTime(run.nextRetryAt!) }) : (run.lastError ?? (run.httpStatus ? `HTTP ${run.httpStatus}` : (run.waitingFor ?? "–")))) },
            ]}
          />
        </section>
        <section className="stack" aria-labelledby="job-fires">
          <div className="row between">
            <div>
              <h2 id="job-fires">{t("jobFires")}</h2>
              <p className="soft">{t("jobFiresHint")}</p>
            </div>
            {showsFires ? null : <Button onClick={() => setShowsFires(true)}>{t("jobShowFires")}</Button>}
          </div>
          {showsFires ? (
            <DataTable<Fire>
              label={t("jobFires")}
              source={fires}
              rowKey={(fire) => fire.scheduledTime}
              empty={t("jobNoFires")}
              columns={[
                { title: t("jobScheduled"), cell: (fire) => dateTime(fire.scheduledTime) },
                { title: t("jobOutcome"), cell: (fire) => valueText("fire", fire.outcome) },
                { title: t("reason"), cell: (fire) => fire.reason ?? "–" },
                { title: t("jobRun"), cell: (fire) => (fire.runId ? <Link to={`/jobs/runs/${fire.runId}`}>{t("jobOpenRun")}</Link> : "–") },
              ]}
            />
          ) : null}
        </section>
      </div>
      {isFilling ? <BackfillForm jobId={jobId} close={() => setFilling(false)} refresh={refresh} /> : null}
    </Page>
  );
}

const lastDay = (now: number): string => new Date(Math.floor((now - 86_400_000) / 60_000) * 60_000).toISOString();

function taskLine(task: Record<string, unknown>): string {
  if (task.type === "HTTP") return `${String(task.method ?? "POST")} ${String(task.url)}`;
  return task.type === "TASK" ? String(task.tool) : `FLOW ${String(task.name ?? "")}`;
}

interface BackfillValues {
  from: string;
  to: string;
  parallelism: number;
  reprocess: boolean;
}

/** Runs for times that have passed: first how many, then for real. */
function BackfillForm({ jobId, close, refresh }: { jobId: string; close: () => void; refresh: () => Promise<unknown> }) {
  const t = useT();
  const [form] = Form.useForm<BackfillValues>();
  const [planned, setPlanned] = useState<number | null>(null);
  const [started, setStarted] = useState<string | null>(null);
  const progress = useQuery({ queryKey: ["backfills", started], enabled: started !== null, queryFn: () => raw<Backfill>("GET", `/backfills/${started}`), refetchInterval: ({ state }) => (state.data?.status === "RUNNING" || !state.data ? 2000 : false) });
  const { submit, fault, isSending } = useSubmit(form, async (values) => {
    const body = { ...values, from: new Date(values.from).toISOString(), to: new Date(values.to).toISOString() };
    if (planned === null) {
      const answer = await raw<{ acceptedRuns: number }>("POST", `/jobs/${jobId}/backfill`, { ...body, dryRun: true });
      setPlanned(answer.acceptedRuns);
    } else {
      const answer = await raw<{ backfillId: string }>("POST", `/jobs/${jobId}/backfill`, body);
      setStarted(answer.backfillId);
      await refresh();
    }
  });
  const required = [{ required: true, message: t("required") }];
  return (
    <Modal open title={t("jobBackfill")} onCancel={close} okText={started ? t("close") : t(planned === null ? "jobBackfillPlan" : "jobBackfillStart")} okButtonProps={{ loading: isSending }} onOk={started ? close : form.submit}>
      <Form<BackfillValues> form={form} layout="vertical" initialValues={{ parallelism: 1, reprocess: false }} onValuesChange={() => setPlanned(null)} onFinish={(values) => void submit(values)}>
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
        <Form.Item name="reprocess" valuePropName="checked">
          <Checkbox>{t("jobReprocess")}</Checkbox>
        </Form.Item>
        <Fault error={fault ?? progress.error} />
        <p role="status">
          {started && progress.data ? t("jobBackfillProgress", { done: number(progress.data.done), total: number(progress.data.total), failed: number(progress.data.failed) }) : planned === null ? "" : t("jobBackfillPlanned", { count: number(planned) })}
        </p>
      </Form>
    </Modal>
  );
}
