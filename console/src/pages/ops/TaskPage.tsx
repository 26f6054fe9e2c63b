import { Button } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "react-router";
import { api, call } from "@/api/client";
import { label as labelOf, useLabel } from "@/api/dictionaries";
import { ApiError } from "@/api/errors";
import { useAllowed } from "@/api/queries";
import { ENDED, type Schemas } from "@/api/types";
import { dateTime, duration, locale, points, useLanguage, useT, valueText, type Language, type Translate } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { StatusTag } from "@/ui/StatusTag";
import { Waiting } from "@/ui/Waiting";
import { useReason } from "@/ui/useReason";
import { shortId } from "./data";
import { failureText } from "./Tasks";

type TaskDetail = Schemas["OpsTaskViewBody"];
type TaskNode = Schemas["OpsNodeBody"];
type Attempt = ReturnType<typeof attemptsOf>[number];

/** The attempts of each step, from the changes of its state: who ran it, from when to when, and how it ended. */
export function attemptsOf(timeline: Schemas["StepBody"][]): { key: string; node: string; attempt: number; workerId: string | null; startedAt: string | null; endedAt: string | null; status: string; reason: string | null }[] {
  const found = new Map<string, Attempt>();
  for (const change of timeline) {
    if (change.attempt < 1) continue;
    const key = `${change.node} ${change.attempt}`;
    const before = found.get(key) ?? { key, node: change.node, attempt: change.attempt, workerId: null, startedAt: null, endedAt: null, status: "", reason: null };
    // A retry puts the step back under its old attempt: what has ended stays as it ended.
    if (before.endedAt) continue;
    const isOver = change.toStatus !== "PROCESSING" && change.fromStatus === "PROCESSING";
    found.set(key, {
      ...before,
      workerId: change.workerId ?? before.workerId,
      startedAt: change.toStatus === "PROCESSING" ? (before.startedAt ?? change.at) : before.startedAt,
      endedAt: isOver ? change.at : before.endedAt,
      status: change.toStatus,
      reason: change.reason ?? before.reason,
    });
  }
  return [...found.values()];
}

export default function TaskPage() {
  const t = useT();
  const label = useLabel();
  const language = useLanguage();
  const ask = useReason();
  const client = useQueryClient();
  const { taskId = "" } = useParams();
  const mayWrite = useAllowed("ops.write");
  const found = useQuery({
    queryKey: ["ops", "tasks", taskId],
    queryFn: () => call(api.GET("/api/v1/ops/tasks/{any_task_id}", { params: { path: { any_task_id: taskId } } })),
    refetchInterval: ({ state }) => (state.data && ENDED.has(state.data.status) ? false : 3000),
  });
  const isLive = found.data !== undefined && !ENDED.has(found.data.status);
  const task = found.data;
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!task) return <Waiting />;
  const act = (verb: "retry" | "cancel") =>
    ask({
      title: t(verb === "retry" ? "opsRetryOne" : "opsCancelOne"),
      text: t(verb === "retry" ? "opsRetryText" : "opsCancelText"),
      action: t(verb === "retry" ? "opsRetryOne" : "opsCancelOne"),
      isDanger: verb === "cancel",
      isReasonNeeded: false,
      run: async () => {
        const body = { ids: [taskId] };
        const { results } = await (verb === "retry" ? call(api.POST("/api/v1/ops/tasks/retry", { body })) : call(api.POST("/api/v1/ops/tasks/cancel", { body })));
        const answer = results[0];
        if (answer?.errorCode) throw new ApiError(409, { code: answer.errorCode });
        await client.invalidateQueries({ queryKey: ["ops", "tasks"] });
      },
    });
  return (
    <Page
      title={task.name || label("tools", task.tool)}
      text={
        <>
          <Link to="/ops/tasks">{t("opsTasks")}</Link> · <code>{task.taskId}</code>
        </>
      }
      actions={
        mayWrite ? (
          isLive ? (
            <Button danger onClick={() => act("cancel")}>
              {t("opsCancelOne")}
            </Button>
          ) : task.status === "FAILED" || task.status === "PARTIAL" ? (
            <Button type="primary" onClick={() => act("retry")}>
              {t("opsRetryOne")}
            </Button>
          ) : null
        ) : null
      }
    >
      <div className="stack loose">
        <dl className="card ops-facts">
          <Fact title={t("opsState")}>
            <StatusTag status={task.status} /> 
          </Fact>
          <Fact title={t("opsTenant")}>
            <Link to={`/ops/tenants/${task.tenantId}`}>{task.tenantName}</Link>
          </Fact>
          <Fact title={t("opsPerson")}>{task.userEmail ?? shortId(task.userId)}</Fact>
          <Fact title={t("opsLane")}>{label("lanes", task.lane)}</Fact>
          <Fact title={t("opsPrice")}>
            {points(task.pricePoints)} · {t("opsChargedOf", { points: points(task.chargedPoints) })}
          </Fact>
          <Fact title={t("opsCreated")}>{dateTime(task.createdAt)}</Fact>
          <Fact title={t("opsTook")}>{task.endedAt ? duration((Date.parse(task.endedAt) - Date.parse(task.createdAt)) / 1000) : "–"}</Fact>
          <Fact title={t("opsTrace")}>
            <code>{task.traceId}</code>
          </Fact>
          {task.error ? (
            <Fact title={t("opsErrorTitle")}>
              {failureText(task.error)} <code>{task.error.code}</code>
            </Fact>
          ) : null}
        </dl>
        {isLive ? (
          <section className="stack" aria-labelledby="ops-why">
            <h2 id="ops-why">{t("opsWhy")}</h2>
            <DataTable
              label={t("opsWhy")}
              source={{ items: task.why.filter((node) => node.waitingFor !== "none") }}
              rowKey={(node) => node.name}
              empty={t("opsWhyNothing")}
              columns={[
                { title: t("opsStep"), cell: (node) => <span translate="no">{node.name}</span> },
                { title: t("opsReasonTitle"), cell: (node) => <strong>{valueText("waiting", node.waitingFor)}</strong> },
                { title: t("opsPosition"), isNumber: true, cell: (node) => node.position ?? "–" },
                { title: t("opsEta"), isNumber: true, cell: (node) => (node.etaSeconds === null ? "–" : duration(node.etaSeconds)) },
                { title: t("opsDetail"), cell: (node) => <span className="soft">{whyText(node, task, t, language)}</span> },
              ]}
            />
          </section>
        ) : null}
        <Bars task={task} />
        <section className="stack" aria-labelledby="ops-steps">
          <h2 id="ops-steps">{t("opsSteps")}</h2>
          <DataTable<TaskNode>
            label={t("opsSteps")}
            source={{ items: task.nodes }}
            rowKey={(node) => node.nodeId}
            empty={t("opsNothing")}
            columns={[
              { title: t("opsStep"), cell: (node) => <strong translate="no">{node.name}</strong> },
              { title: t("opsKind"), cell: (node) => label("steps", node.step) },
              { title: t("opsState"), cell: (node) => <StatusTag status={node.status} /> },
              { title: t("opsAttemptTitle"), isNumber: true, cell: (node) => node.attempt },
              { title: t("opsAfter"), cell: (node) => <span translate="no">{node.dependsOn.join(", ") || "–"}</span> },
              { title: t("opsErrorTitle"), cell: (node) => <span title={node.error?.code}>{failureText(node.error)}</span> },
            ]}
          />
        </section>
        <section className="stack" aria-labelledby="ops-attempts">
          <h2 id="ops-attempts">{t("opsAttempts")}</h2>
          <DataTable<Attempt>
            label={t("opsAttempts")}
            source={{ items: attemptsOf(task.timeline) }}
            rowKey={(one) => one.key}
            empty={t("opsNoAttempts")}
            columns={[
              { title: t("opsStep"), cell: (one) => <strong translate="no">{one.node}</strong> },
              { title: t("opsAttemptTitle"), isNumber: true, cell: (one) => one.attempt },
              { title: t("opsWorker"), cell: (one) => <span translate="no">{one.workerId ?? "–"}</span> },
              { title: t("opsState"), cell: (one) => <StatusTag status={one.status} /> },
              { title: t("opsStartedAt"), cell: (one) => (one.startedAt ? clock(one.startedAt) : "–") },
              { title: t("opsTook"), isNumber: true, cell: (one) => (one.startedAt && one.endedAt ? duration((Date.parse(one.endedAt) - Date.parse(one.startedAt)) / 1000) : "–") },
              { title: t("opsReasonTitle"), cell: (one) => (one.reason ? (labelOf("failures", one.reason) ?? one.reason) : "–") },
            ]}
          />
        </section>
        <section className="stack" aria-labelledby="ops-log">
          <h2 id="ops-log">{t("opsTimeline")}</h2>
          <ol className="card ops-timeline">
            {task.timeline.map((line, index) => (
              <li key={index}>
                <time dateTime={line.at} className="soft digits">
                  {clock(line.at)}
                </time>
                <span>
                  <strong translate="no">{line.node}</strong> {line.fromStatus ? `${valueText("status", line.fromStatus)} → ` : ""}
                  {valueText("status", line.toStatus)}
                  <span className="soft">
                    {line.attempt ? ` · ${t("opsAttempt", { number: line.attempt })}` : ""}
                    {line.workerId ? <span translate="no"> · {line.workerId}</span> : null}
                    {line.reason ? ` · ${labelOf("failures", line.reason) ?? line.reason}` : ""}
                  </span>
                </span>
              </li>
            ))}
          </ol>
        </section>
      </div>
    </Page>
  );
}

/** Why a step waits: the server's sentence is English, so Chinese pages say what the fields say. */
function whyText(node: TaskDetail["why"][number], task: TaskDetail, t: Translate, language: Language): string {
  const before = task.nodes.find((one) => one.name === node.name)?.dependsOn ?? [];
  if (node.waitingFor === "dependency" && before.length) return t("opsWaitsFor", { steps: before.join(", ") });
  return language === "en" ? node.detail : "–";
}

const clock = (at: string) => new Date(at).toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1 });

export function Fact({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Waiting and running time of each step on one axis. */
function Bars({ task }: { task: TaskDetail }) {
  const t = useT();
  const start = Date.parse(task.createdAt);
  const end = Math.max(start + 1, task.endedAt ? Date.parse(task.endedAt) : Date.now(), ...task.nodes.map((node) => (node.endedAt ? Date.parse(node.endedAt) : 0)));
  const part = (at: number) => `${(Math.max(0, at - start) / (end - start)) * 100}%`;
  const wide = (from: number, to: number) => `${(Math.max(0, to - from) / (end - start)) * 100}%`;
  return (
    <section className="stack" aria-labelledby="ops-times">
      <h2 id="ops-times">{t("opsTimes")}</h2>
      <div className="card ops-bars">
        {task.nodes.map((node) => {
          const ready = node.readyAt ? Date.parse(node.readyAt) : null;
          const began = node.startedAt ? Date.parse(node.startedAt) : null;
          const over = node.endedAt ? Date.parse(node.endedAt) : ENDED.has(task.status) ? null : end;
          return (
            <div key={node.nodeId} className="ops-bar">
              <span className="ops-clip" translate="no">{node.name}</span>
              <div aria-hidden="true">
                {ready ? <i className="wait" style={{ left: part(ready), width: wide(ready, began ?? over ?? end) }} /> : null}
                {began && over ? <i className={`run ${node.status === "FAILED" || node.status === "TIMEOUT" ? "bad" : ""}`} style={{ left: part(began), width: wide(began, over) }} /> : null}
              </div>
              <span className="digits" style={{ textAlign: "end" }}>
                {began && over ? duration(Math.round((over - began) / 100) / 10) : "–"}
              </span>
            </div>
          );
        })}
        <p className="soft">{t("opsTimesHint")}</p>
      </div>
    </section>
  );
}
