import { App, Button } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "react-router";
import { label as labelOf, useLabel } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import { raw } from "@/api/raw";
import { ENDED, type Schemas } from "@/api/types";
import { dateTime, duration, locale, points, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { StatusTag } from "@/ui/StatusTag";
import { Waiting } from "@/ui/Waiting";
import { useReason } from "@/ui/useReason";
import { shortId } from "./data";
import type { Changed, OpsTask } from "./Tasks";

interface TaskNode {
  nodeId: string;
  name: string;
  type: string;
  step: string;
  status: string;
  attempt: number;
  dependsOn: string[];
  workerId: string | null;
  error: { code: string; message: string } | null;
  createdAt: string;
  readyAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
}

interface TaskDetail extends OpsTask {
  nodes: TaskNode[];
  timeline: { at: string; event: string; node: string | null; attempt: number | null; status: string | null; detail: unknown }[];
}

type Why = Schemas["WhyBody"];

export default function TaskPage() {
  const t = useT();
  const label = useLabel();
  const ask = useReason();
  const navigate = useNavigate();
  const client = useQueryClient();
  const { message } = App.useApp();
  const { taskId = "" } = useParams();
  const mayWrite = useAllowed("ops.write");
  const found = useQuery({ queryKey: ["ops", "tasks", taskId], queryFn: () => raw<TaskDetail>("GET", `/ops/tasks/${taskId}`), refetchInterval: ({ state }) => (state.data && ENDED.has(state.data.status) ? false : 3000) });
  const isLive = found.data !== undefined && !ENDED.has(found.data.status);
  const why = useQuery({ queryKey: ["ops", "tasks", taskId, "why"], enabled: isLive, queryFn: () => raw<Why>("GET", `/ops/tasks/${taskId}/why`), refetchInterval: 5000 });
  const task = found.data;
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!task) return <Waiting />;
  const act = (verb: "retry" | "cancel") =>
    ask({
      title: t(verb === "retry" ? "opsRetryTitle" : "opsCancelTitle", { count: 1 }),
      text: t(verb === "retry" ? "opsRetryText" : "opsCancelText"),
      action: t(verb === "retry" ? "opsRetry" : "opsCancelTasks"),
      isDanger: verb === "cancel",
      isReasonNeeded: false,
      run: async () => {
        const { results } = await raw<Changed>("POST", `/ops/tasks/${verb}`, { ids: [taskId] });
        const answer = results[0];
        if (answer?.errorCode) void message.error(labelOf("error_codes", answer.errorCode) ?? answer.errorCode);
        else if (verb === "retry" && answer?.taskId) void navigate(`/ops/tasks/${answer.taskId}`);
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
              {t("opsCancelTasks")}
            </Button>
          ) : task.status === "FAILED" || task.status === "PARTIAL" ? (
            <Button type="primary" onClick={() => act("retry")}>
              {t("opsRetry")}
            </Button>
          ) : null
        ) : null
      }
    >
      <div className="stack loose">
        <dl className="card ops-facts">
          <Fact title={t("opsState")}>
            <StatusTag status={task.status} /> {isLive ? `${task.progress} %` : ""}
          </Fact>
          <Fact title={t("opsTenant")}>
            <Link to={`/ops/tenants/${task.tenantId}`}>{task.tenantName ?? shortId(task.tenantId)}</Link>
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
          {task.errorCode ? <Fact title={t("opsErrorTitle")}>{labelOf("failures", task.errorCode) ?? labelOf("error_codes", task.errorCode) ?? task.errorCode}</Fact> : null}
        </dl>
        {isLive ? (
          <section className="stack" aria-labelledby="ops-why">
            <h2 id="ops-why">{t("opsWhy")}</h2>
            <Fault error={why.error} />
            <DataTable
              label={t("opsWhy")}
              source={{ items: (why.data?.nodes ?? []).filter((node) => node.waitingFor !== "none"), isPending: why.isPending && !why.error }}
              rowKey={(node) => node.name}
              empty={t("opsWhyNothing")}
              columns={[
                { title: t("opsStep"), cell: (node) => node.name },
                { title: t("opsReasonTitle"), cell: (node) => <strong>{valueText("waiting", node.waitingFor)}</strong> },
                { title: t("opsPosition"), isNumber: true, cell: (node) => node.position ?? "–" },
                { title: t("opsEta"), isNumber: true, cell: (node) => (node.etaSeconds === null ? "–" : duration(node.etaSeconds)) },
                { title: t("opsDetail"), cell: (node) => <span className="soft">{node.detail}</span> },
              ]}
            />
          </section>
        ) : null}
        <Bars task={task} />
        <section className="stack" aria-labelledby="ops-attempts">
          <h2 id="ops-attempts">{t("opsStepsTitle")}</h2>
          <DataTable<TaskNode>
            label={t("opsStepsTitle")}
            source={{ items: task.nodes }}
            rowKey={(node) => node.nodeId}
            empty={t("opsNothing")}
            columns={[
              { title: t("opsStep"), cell: (node) => <strong>{node.name}</strong> },
              { title: t("opsKind"), cell: (node) => label("steps", node.step) },
              { title: t("opsState"), cell: (node) => <StatusTag status={node.status} /> },
              { title: t("opsAttemptTitle"), isNumber: true, cell: (node) => node.attempt },
              { title: t("opsWorker"), cell: (node) => node.workerId ?? "–" },
              { title: t("opsAfter"), cell: (node) => node.dependsOn.join(", ") || "–" },
              { title: t("opsErrorTitle"), cell: (node) => (node.error ? <span title={node.error.code}>{labelOf("failures", node.error.code) ?? node.error.message}</span> : "–") },
            ]}
          />
        </section>
        <section className="stack" aria-labelledby="ops-log">
          <h2 id="ops-log">{t("opsTimeline")}</h2>
          <ol className="card ops-timeline">
            {task.timeline.map((line, index) => (
              <li key={index}>
                <time dateTime={line.at} className="soft digits">
                  {new Date(line.at).toLocaleTimeString(locale())}
                </time>
                <span>
                  <strong>{line.node ?? t("opsTask")}</strong> {line.event}
                  {line.attempt ? ` · ${t("opsAttempt", { number: line.attempt })}` : ""}
                  {line.status ? ` · ${valueText("status", line.status)}` : ""}
                  {line.detail && JSON.stringify(line.detail) !== "{}" ? <span className="soft"> · {typeof line.detail === "string" ? line.detail : JSON.stringify(line.detail)}</span> : null}
                </span>
              </li>
            ))}
          </ol>
        </section>
      </div>
    </Page>
  );
}

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
              <span className="ops-clip">{node.name}</span>
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
