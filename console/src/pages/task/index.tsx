import { DeleteOutlined, DownloadOutlined, PictureOutlined, QuestionCircleOutlined, RedoOutlined, StopOutlined, ToolOutlined } from "@ant-design/icons";
import { Alert, Button, Dropdown } from "antd";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useNavigate, useParams } from "react-router";
import { notices } from "@/app/notices";
import { api, call, once } from "@/api/client";
import { useLabel } from "@/api/dictionaries";
import { ApiError, OwnFault } from "@/api/errors";
import { queries, toolTitle, useAllowed, useTools, useUser } from "@/api/queries";
import { ENDED, type Result, type TaskView } from "@/api/types";
import { date, dateTime, duration, points, useT, valueText } from "@/i18n";
import { originalOf } from "@/pages/studio/draft";
import { Empty } from "@/ui/Empty";
import { Fault } from "@/ui/Fault";
import NotFound from "@/ui/NotFound";
import { Page } from "@/ui/Page";
import { StatusTag } from "@/ui/StatusTag";
import { Waiting } from "@/ui/Waiting";
import { useReason } from "@/ui/useReason";
import { Compare } from "./Compare";
import { Answers, Dag, faultText, isCall, useNodeTitle, type TimedNode } from "./Dag";
import { zip } from "./zip";
import "@/pages/studio/studio.css";
import "./task.css";

/** Without an event for this long the page asks: a lost event or socket must not freeze it. */
const QUIET_MS = 12_000;

export default function TaskPage() {
  const { taskId = "" } = useParams();
  const task = useQuery({
    queryKey: ["task", taskId],
    queryFn: (): Promise<TaskView> => call(api.GET("/api/v1/tasks/{task_id}", { params: { path: { task_id: taskId } } })),
    staleTime: 5_000,
    // Each event renews the data, so this interval counts from the last one.
    refetchInterval: ({ state }) => (state.data && ENDED.has(state.data.status) ? false : QUIET_MS),
  });
  useEffect(() => {
    notices.remove(taskId);
  }, [taskId]);
  const resultsWanted = task.data?.nodes.filter((node) => node.status === "COMPLETED" && !isCall(node) && !task.data.nodes.some((other) => other.dependsOn.includes(node.name))).length ?? 0;
  const resultsHere = task.data?.results.length ?? 0;
  const isRunning = task.data !== undefined && !ENDED.has(task.data.status);
  // Pictures come with the task, not with events: read it once for each picture that was added.
  const { refetch } = task;
  useEffect(() => {
    if (!isRunning || resultsWanted <= resultsHere) return;
    const timer = setTimeout(() => void refetch(), 600);
    return () => clearTimeout(timer);
  }, [isRunning, resultsWanted, resultsHere, refetch]);
  if (task.data) return <TaskContent task={task.data} />;
  if (task.error instanceof ApiError && task.error.status === 404) return <NotFound />;
  if (task.error) return <Fault error={task.error} retry={() => void task.refetch()} />;
  return <Waiting />;
}

function TaskContent({ task }: { task: TaskView }) {
  const t = useT();
  const label = useLabel();
  const tools = useTools();
  const tool = tools.data?.find((one) => one.tool === task.tool);
  const title = task.tool ? (tool ? toolTitle(tool, task.tool) : label("tools", task.tool)) : task.name || t("flow");
  const isEnded = ENDED.has(task.status);
  return (
    <Page
      title={title}
      text={
        <span className="row" style={{ gap: 10 }}>
          <StatusTag status={task.status} />
          {task.isDraft ? <span className="tag warn">{t("draft")}</span> : null}
          <span className="digits">{dateTime(task.createdAt)}</span>
        </span>
      }
      actions={<Actions task={task} isTool={tool !== undefined} />}
    >
      <div className="stack">
        {isEnded ? null : (
          <div className="row" style={{ flexWrap: "nowrap" }}>
            <div className="progress-line" style={{ flex: 1 }} role="progressbar" aria-valuenow={task.progress} aria-valuemin={0} aria-valuemax={100} aria-label={t("taskSteps")}>
              <span style={{ width: `${task.progress}%` }} />
            </div>
            <span className="digits">{task.progress} %</span>
          </div>
        )}
        {task.status === "FAILED" ? <Alert type="error" showIcon role="alert" title={t("taskFailed")} description={task.error ? faultText(task.error) : undefined} /> : null}
        {task.status === "PARTIAL" ? <Alert type="warning" showIcon role="note" title={t("taskPartial")} description={task.error ? faultText(task.error) : undefined} /> : null}
        {task.isDraft ? <Alert type="warning" showIcon role="note" title={t("draftText")} /> : null}
        <div className="task-grid">
          <div className="stack">
            <Results task={task} title={title} />
            <section className="card stack" aria-labelledby="steps">
              <h2 id="steps">{t("taskSteps")}</h2>
              <Dag nodes={task.nodes} />
              <Answers nodes={task.nodes} />
              {isEnded ? null : <Why taskId={task.taskId} nodes={task.nodes} />}
            </section>
          </div>
          <aside className="card">
            <dl className="facts">
              <dt>{t(isEnded ? "taskCharged" : "taskHeld")}</dt>
              <dd className="digits" data-testid="charged">
                {points(isEnded ? task.chargedPoints : task.pricePoints)}
              </dd>
              <dt>{t("taskLane")}</dt>
              <dd>{label("lanes", task.lane)}</dd>
              {task.endedAt ? (
                <>
                  <dt>{t("taskTook")}</dt>
                  <dd className="digits">{duration((Date.parse(task.endedAt) - Date.parse(task.createdAt)) / 1000)}</dd>
                </>
              ) : null}
            </dl>
            <Kept task={task} />
          </aside>
        </div>
      </div>
    </Page>
  );
}

/** Until when the pictures are kept, from the tier's period in GET /me. */
function Kept({ task }: { task: TaskView }) {
  const t = useT();
  const { artefactDays: days } = useUser();
  if (!task.results.length) return null;
  return (
    <p className="soft" style={{ marginTop: 14 }}>
      {t("taskExpires", { date: date(new Date(Date.parse(task.endedAt ?? task.createdAt) + days * 86_400_000).toISOString()) })}
    </p>
  );
}

function Actions({ task, isTool }: { task: TaskView; isTool: boolean }) {
  const t = useT();
  const ask = useReason();
  const navigate = useNavigate();
  const canSubmit = useAllowed("task.submit");
  const canCancel = useAllowed("task.cancel");
  const refresh = () => queries.invalidateQueries({ queryKey: ["task", task.taskId] });
  const retry = useMutation({
    mutationFn: () => call(api.POST("/api/v1/tasks/{task_id}/retry", { params: { path: { task_id: task.taskId } }, ...once() })),
    onSuccess: ({ taskId }) => {
      void refresh();
      if (taskId !== task.taskId) void navigate(`/tasks/${taskId}`);
    },
  });
  const stop = () =>
    ask({
      title: t("taskCancelAsk"),
      text: t("taskCancelText"),
      action: t("taskCancel"),
      refusal: t("taskKeep"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        try {
          await call(api.POST("/api/v1/tasks/{task_id}/cancel", { params: { path: { task_id: task.taskId } } }));
        } finally {
          await refresh();
        }
      },
    });
  const isEnded = ENDED.has(task.status);
  return (
    <>
      <Fault error={retry.error} />
      {!isEnded && canCancel ? (
        <Button icon={<StopOutlined />} onClick={stop}>
          {t("taskCancel")}
        </Button>
      ) : null}
      {(task.status === "FAILED" || task.status === "PARTIAL") && canSubmit ? (
        <Button icon={<RedoOutlined />} loading={retry.isPending} onClick={() => retry.mutate()}>
          {t("taskRetry")}
        </Button>
      ) : null}
      {isTool && canSubmit ? (
        <Button icon={<ToolOutlined />} onClick={() => void navigate(`/studio/${task.tool}?again=${task.taskId}`)}>
          {t("taskAgain")}
        </Button>
      ) : null}
    </>
  );
}

const ENDINGS: Record<string, string> = { "image/png": "png", "image/jpeg": "jpg", "image/webp": "webp" };

/** artiway-cutout-20261118-1.png */
export function fileName(task: TaskView, result: Result, at: number): string {
  const day = task.createdAt.slice(0, 10).replaceAll("-", "");
  return `artiway-${task.tool || "flow"}-${day}-${at + 1}.${ENDINGS[result.contentType] ?? "png"}`;
}

function Results({ task, title }: { task: TaskView; title: string }) {
  const t = useT();
  const navigate = useNavigate();
  const tools = useTools();
  const ask = useReason();
  const canSubmit = useAllowed("task.submit");
  const [chosen, setChosen] = useState<string | null>(null);
  // The first picture that came stays open: one that comes later, also before it in the list, must not move the slider.
  if (chosen === null && task.results[0]) setChosen(task.results[0].name);
  const result = task.results.find((one) => one.name === chosen) ?? task.results[0];
  const at = result ? task.results.indexOf(result) : 0;
  const original = originalFor(task, result, at);

  const download = useMutation({
    mutationFn: async ({ one, place }: { one: Result; place: number }) => {
      // The address of a picture expires while a page stays open.
      const fresh = Date.parse(one.expiresAt) - Date.now() > 5_000 ? one : ((await reread(task.taskId)).results.find((other) => other.name === one.name) ?? one);
      save(fresh.downloadUrl, fileName(task, one, place));
    },
  });
  const pack = useMutation({
    mutationFn: async () => {
      const { results } = task.results.some((one) => Date.parse(one.expiresAt) - Date.now() < 60_000) ? await reread(task.taskId) : task;
      const files = [];
      for (const [place, one] of results.entries()) files.push({ name: fileName(task, one, place), blob: await pictureOf(one.url) });
      const url = URL.createObjectURL(await zip(files));
      save(url, `artiway-${task.tool || "flow"}-${task.createdAt.slice(0, 10).replaceAll("-", "")}.zip`);
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    },
  });
  const remove = (one: Result) =>
    ask({
      title: t("taskDeleteAsk"),
      text: t("taskDeleteText"),
      action: t("delete"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await call(api.DELETE("/api/v1/tasks/{task_id}/results/{name}", { params: { path: { task_id: task.taskId, name: one.name } } }));
        await queries.invalidateQueries({ queryKey: ["task", task.taskId] });
        void queries.invalidateQueries({ queryKey: ["tasks"] });
      },
    });

  if (!result)
    return ENDED.has(task.status) ? null : (
      <section className="card" aria-label={t("taskResults")}>
        <Empty icon={<PictureOutlined />} title={t("taskResults")} text={t("taskNoResults")} />
      </section>
    );
  return (
    <section className="card stack" aria-labelledby="results">
      <div className="row between">
        <h2 id="results">{t("taskResults")}</h2>
        <div className="row">
          {task.results.length > 1 ? (
            <Button icon={<DownloadOutlined />} loading={pack.isPending} onClick={() => pack.mutate()}>
              {pack.isPending ? t("taskPacking") : t("taskDownloadAll", { count: task.results.length })}
            </Button>
          ) : null}
        </div>
      </div>
      <Fault error={pack.error ?? download.error} />
      <Compare key={result.name} result={result} original={original} alt={`${title}: ${t("taskPicture", { number: at + 1 })}`} />
      <div className="row" style={{ justifyContent: "center" }}>
        <Button type="primary" icon={<DownloadOutlined />} onClick={() => download.mutate({ one: result, place: at })}>
          {t("taskDownload")}
        </Button>
        {canSubmit ? (
          <Dropdown
            // eslint-disable-next-line jsx-a11y/no-autofocus -- a menu that opens takes the focus, for the arrow keys
            autoFocus
            trigger={["click"]}
            menu={{ items: (tools.data ?? []).map((one) => ({ key: one.tool, label: toolTitle(one, one.tool), onClick: () => void navigate(`/studio/${one.tool}?from=${task.taskId}:${result.name}`) })), style: { maxHeight: 340, overflowY: "auto" } }}
          >
            <Button icon={<ToolOutlined />}>{t("taskNext")}</Button>
          </Dropdown>
        ) : null}
        {canSubmit && ENDED.has(task.status) ? <Button icon={<DeleteOutlined />} aria-label={`${t("delete")}: ${t("taskPicture", { number: at + 1 })}`} onClick={() => remove(result)} /> : null}
        {result.isDraft ? <span className="tag warn">{t("draft")}</span> : null}
        <span className="soft digits">
          {result.width} × {result.height}
        </span>
      </div>
      {task.results.length > 1 ? (
        <ul className="strip" aria-label={t("taskResults")}>
          {task.results.map((one, place) => (
            <li key={one.name}>
              <button type="button" className="checker" aria-pressed={one === result} aria-label={t("taskPicture", { number: place + 1 })} onClick={() => setChosen(one.name)}>
                <img src={one.url} alt="" loading="lazy" />
              </button>
            </li>
          ))}
        </ul>
      ) : null}
    </section>
  );
}

/** In a batch each result belongs to the input with its number. */
function originalFor(task: TaskView, result: Result | undefined, at: number): string | null {
  if (!result) return null;
  const number = /_(\d+)(?:\.\w+)?$/.exec(result.name)?.[1] ?? String(at + 1);
  const { inputs } = task;
  const found = inputs.find((one) => one.name === `product_${number}`) ?? inputs.find((one) => one.name === "product");
  return found?.url ?? (inputs.length ? null : (originalOf(task.taskId) ?? null));
}

async function reread(taskId: string): Promise<TaskView> {
  const task = await call(api.GET("/api/v1/tasks/{task_id}", { params: { path: { task_id: taskId } } }));
  queries.setQueryData(["task", taskId], task);
  return task;
}

async function pictureOf(url: string): Promise<Blob> {
  const answer = await fetch(url);
  if (!answer.ok) throw new OwnFault("errorUnreachable");
  return answer.blob();
}

function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
}

function Why({ taskId, nodes }: { taskId: string; nodes: TimedNode[] }) {
  const t = useT();
  const title = useNodeTitle();
  const [isOpen, setOpen] = useState(false);
  const why = useQuery({
    queryKey: ["why", taskId],
    enabled: isOpen,
    refetchInterval: 10_000,
    staleTime: 0,
    queryFn: () => call(api.GET("/api/v1/tasks/{task_id}/why", { params: { path: { task_id: taskId } } })),
  });
  return (
    <div className="stack tight">
      <div>
        <Button icon={<QuestionCircleOutlined />} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {t("taskWhy")}
        </Button>
      </div>
      {isOpen ? (
        <div aria-live="polite">
          <Fault error={why.error} />
          {why.data ? (
            why.data.nodes.length ? (
              <ul className="why">
                {why.data.nodes.map((reason) => {
                  const node = nodes.find((one) => one.name === reason.name);
                  return (
                    <li key={reason.name}>
                      <strong>{node ? title(node) : reason.name}</strong>: {valueText("waiting", reason.waitingFor)}
                      <span className="soft digits">
                        {reason.position ? ` · ${t("taskWhyAhead", { count: reason.position })}` : ""}
                        {reason.etaSeconds === null ? "" : ` · ${t("taskWhyStart", { time: duration(reason.etaSeconds) })}`}
                      </span>
                    </li>
                  );
                })}
              </ul>
            ) : (
              <p className="soft">{t("taskWhyNothing")}</p>
            )
          ) : null}
        </div>
      ) : null}
    </div>
  );
}
