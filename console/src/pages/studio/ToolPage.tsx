import { CodeOutlined, ThunderboltOutlined } from "@ant-design/icons";
import { Alert, App, Button, Dropdown, InputNumber, Switch } from "antd";
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useDeferredValue, useEffect, useId, useRef, useState } from "react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { api, call, once } from "@/api/client";
import { errorText } from "@/api/dictionaries";
import { ApiError, OwnFault } from "@/api/errors";
import { queries, toolTitle, useTools, useUser } from "@/api/queries";
import type { TaskView, Tool } from "@/api/types";
import { duration, points, useT, valueText } from "@/i18n";
import type { Word } from "@/i18n/words";
import { WORDS } from "@/i18n/words";
import { Empty } from "@/ui/Empty";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { writeClipboard } from "@/ui/clipboard";
import { changeDraft, clearDraft, draftOf, rememberOriginal, useDraft, type Draft } from "./draft";
import { Drop } from "./Drop";
import { toolText } from "./Gallery";
import { MaskEditor } from "./MaskEditor";
import { ParamField } from "./ParamField";
import { PictureFault, storedPicture, takePicture } from "./picture";
import { asCurl, asPython, lackOf, noStartText, priceOf, submissionOf } from "./request";
import { BATCH_MOST, extraInputs, isAdvanced, isBatch, isMasked, needsMark, paramsOf, sampleOf, SAMPLES } from "./tools";
import "./studio.css";

const BLOCKED_MS = 10_000;

export default function ToolPage() {
  const { tool: name } = useParams();
  const t = useT();
  const tools = useTools();
  const tool = tools.data?.find((one) => one.tool === name);
  if (tools.isPending) return <Waiting />;
  if (tools.error) return <Fault error={tools.error} retry={() => void tools.refetch()} />;
  if (!tool)
    return (
      <Empty isPage icon={<ThunderboltOutlined />} title={t("unknownTool")}>
        <Link to="/">{t("navStudio")}</Link>
      </Empty>
    );
  return <ToolForm key={tool.tool} tool={tool} />;
}

function ToolForm({ tool }: { tool: Tool }) {
  const t = useT();
  const [draft, change] = useDraft(tool.tool);
  const preparing = usePreset(tool);
  const [isMarking, setMarking] = useState(needsMark(tool) || draft.shapes.length > 0);
  const options = paramsOf(tool).filter(([name]) => name !== "regions");
  const main = options.filter(([name]) => !isAdvanced(tool.tool, name));
  const more = options.filter(([name]) => isAdvanced(tool.tool, name));
  const setParam = (name: string, value: unknown) => change((before) => ({ params: { ...before.params, [name]: value } }));
  const picture = draft.pictures[0];
  const markWord = `markHint_${tool.tool}` as Word;
  const field = ([name, schema]: (typeof options)[number]) => <ParamField key={name} name={name} schema={schema} value={draft.params[name]} onChange={(value) => setParam(name, value)} />;
  return (
    <Page
      title={toolTitle(tool, tool.tool)}
      text={toolText(tool.tool, t)}
      actions={
        <>
          <Button onClick={() => (clearDraft(tool.tool), setMarking(needsMark(tool)))}>{t("clearForm")}</Button>
          <CopyMenu tool={tool} draft={draft} />
        </>
      }
    >
      <div className="studio-grid">
        <div className="stack">
          {tool.isDraft ? <Alert type="warning" showIcon role="note" title={t("draftText")} /> : null}
          {preparing.error ? <Fault error={preparing.error} /> : null}
          <section className="card stack" aria-label={t(isBatch(tool) ? "picturesLabel" : "pictureLabel")}>
            <h2>{t(isBatch(tool) ? "picturesLabel" : "pictureLabel")}</h2>
            {isMarking && picture ? null : (
              <Drop
                label={t(isBatch(tool) ? "picturesLabel" : "pictureLabel")}
                pictures={draft.pictures}
                most={isBatch(tool) ? BATCH_MOST : 1}
                hasSamples
                takesPaste
                onChange={(how) => change((before) => ({ pictures: how(before.pictures), ...(isBatch(tool) ? {} : { shapes: [] }) }))}
              />
            )}
            {isMasked(tool) && !needsMark(tool) && picture ? (
              <div className="field inline" style={{ maxWidth: 380 }}>
                <label htmlFor="mark-own">{t("markOwn")}</label>
                <Switch id="mark-own" checked={isMarking} onChange={(on) => (setMarking(on), on || change(() => ({ shapes: [] })))} />
              </div>
            ) : null}
            {isMasked(tool) && isMarking && picture ? (
              <>
                <MaskEditor picture={picture} shapes={draft.shapes} onChange={(shapes) => change(() => ({ shapes }))} hint={markWord in WORDS ? t(markWord) : t("markTitle")} />
                <div>
                  <Button onClick={() => change(() => ({ pictures: [], shapes: [] }))}>{t("pictureOther")}</Button>
                </div>
              </>
            ) : null}
            {extraInputs(tool).map((name) => (
              <div key={name} className="stack tight">
                <h3>{t("extraInput", { name: valueText("input", name) })}</h3>
                <Drop
                  label={valueText("input", name)}
                  pictures={draft.extra[name] ? [draft.extra[name]] : []}
                  most={1}
                  onChange={(how) =>
                    change((before) => {
                      const [next] = how(before.extra[name] ? [before.extra[name]] : []);
                      const others = Object.fromEntries(Object.entries(before.extra).filter(([other]) => other !== name));
                      return { extra: next ? { ...others, [name]: next } : others };
                    })
                  }
                />
              </div>
            ))}
          </section>
          <section className="card stack" aria-label={t("options")}>
            <h2>{t("options")}</h2>
            <div className="fields">
              {tool.count.maximum! > 1 ? <CountField tool={tool} draft={draft} change={change} /> : null}
              {main.map(field)}
            </div>
            {more.length ? (
              <details className="more">
                <summary>{t("optionsMore")}</summary>
                <div className="fields">{more.map(field)}</div>
              </details>
            ) : null}
          </section>
        </div>
        <Order tool={tool} draft={draft} />
      </div>
    </Page>
  );
}

function CountField({ tool, draft, change }: { tool: Tool; draft: Draft; change: (how: (draft: Draft) => Partial<Draft>) => void }) {
  const t = useT();
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{t("count")}</label>
      <InputNumber id={id} style={{ width: "100%" }} min={tool.count.minimum} max={tool.count.maximum} precision={0} value={draft.count ?? tool.count.default} onChange={(count) => change(() => ({ count }))} />
    </div>
  );
}

/** Fill the form from its address: a sample, the result of a task, or a task to run again. */
function usePreset(tool: Tool): { error: unknown } {
  const [search, setSearch] = useSearchParams();
  const [error, setError] = useState<unknown>(null);
  const isRunning = useRef(false);
  useEffect(() => {
    const [sample, from, again] = [search.get("sample"), search.get("from"), search.get("again")];
    if (isRunning.current || !(sample || from || again)) return;
    isRunning.current = true;
    const fill = async () => {
      if (sample && SAMPLES.some((one) => one.name === sample)) {
        const blob = await (await fetch(sampleOf(sample))).blob();
        const picture = await takePicture(blob, `${sample}.jpg`);
        changeDraft(tool.tool, () => ({ pictures: [picture], shapes: [] }));
      }
      if (from) {
        const [taskId, result] = from.split(":");
        const task = await taskOf(taskId!);
        const found = task.results.find((one) => one.name === result);
        if (found) {
          const answer = await fetch(found.url);
          if (!answer.ok) throw new PictureFault("pictureUpload");
          const picture = await takePicture(await answer.blob(), `${task.tool}-${found.name}`);
          changeDraft(tool.tool, () => ({ pictures: [picture], shapes: [] }));
        }
      }
      if (again) {
        const task = await taskOf(again);
        const { regions, ...params } = task.params;
        const inputs = task.inputs.filter((one) => one.url !== null);
        const pictures = inputs.filter((one) => one.name.startsWith("product")).map((one, at) => storedPicture(one.inputId, one.url!, one.width ?? 1, one.height ?? 1, `${task.tool}-${at + 1}`));
        const shapes = Array.isArray(regions) ? (regions as number[][]).map(([x, y, width, height]) => ({ kind: "box" as const, x: x!, y: y!, width: width!, height: height! })) : [];
        changeDraft(tool.tool, (before) => ({
          params,
          count: task.count ?? before.count,
          pictures: pictures.length ? pictures : before.pictures,
          shapes,
          extra: Object.fromEntries(inputs.filter((one) => tool.optionalInputs.includes(one.name) && one.name !== "mask").map((one) => [one.name, storedPicture(one.inputId, one.url!, one.width ?? 1, one.height ?? 1, one.name)])),
        }));
      }
    };
    fill()
      .catch(setError)
      .finally(() => {
        isRunning.current = false;
        setSearch({}, { replace: true });
      });
  }, [search, setSearch, tool]);
  return { error };
}

const taskOf = (taskId: string): Promise<TaskView> => queries.fetchQuery({ queryKey: ["task", taskId], queryFn: () => call(api.GET("/api/v1/tasks/{task_id}", { params: { path: { task_id: taskId } } })), staleTime: 5_000 });

/** Price, balance and honest wait; the button that starts. */
function Order({ tool, draft }: { tool: Tool; draft: Draft }) {
  const t = useT();
  const me = useUser();
  const navigate = useNavigate();
  const lack = lackOf(tool, draft);
  const settled = useDeferredValue(useDebounced(draft, 350));
  const estimate = useQuery({
    queryKey: ["estimate", tool.tool, settled.pictures.map((one) => one.id), Object.values(settled.extra).map((one) => one.id), settled.shapes, settled.params, settled.count],
    enabled: lackOf(tool, settled) === null,
    placeholderData: keepPreviousData,
    staleTime: 15_000,
    gcTime: 60_000,
    // What cannot start now may start soon: a lane is resumed, a worker comes.
    refetchInterval: ({ state }) => (state.data?.etaEndSeconds === null ? BLOCKED_MS : false),
    queryFn: async () => call(api.POST("/api/v1/tasks/estimate", { body: await submissionOf(tool, settled) })),
  });
  const start = useMutation({
    mutationFn: async () => {
      const now = draftOf(tool.tool);
      return call(api.POST("/api/v1/tasks", { body: await submissionOf(tool, now), ...once(now.key) }));
    },
    onSuccess: (task) => {
      rememberOriginal(task.taskId, draft.pictures[0]?.url);
      changeDraft(tool.tool, () => ({ key: crypto.randomUUID() }));
      void queries.invalidateQueries({ queryKey: ["tasks"] });
      void queries.invalidateQueries({ queryKey: ["me"] });
      void navigate(`/tasks/${task.taskId}`);
    },
    // A refused submission is over: the next one is another act with another body.
    onError: (error) => error instanceof ApiError && changeDraft(tool.tool, () => ({ key: crypto.randomUUID() })),
  });
  const [isAsked, setAsked] = useState(false);
  // Until the server has answered for this very form, the price is counted here: never that of the form before it.
  const isCurrent = settled === draft && !estimate.isPlaceholderData;
  const price = lack === null && isCurrent && estimate.data ? estimate.data.pricePoints : priceOf(tool, draft);
  const { balance } = me;
  const short = balance === null ? 0 : Math.max(0, price - balance);
  const fault = start.error ?? (lack === null ? estimate.error : null);
  return (
    <aside className="card order" aria-label={t("orderTitle")}>
      <dl>
        <dt>{t("price")}</dt>
        <dd className="price digits" data-testid="price">
          {points(price)}
        </dd>
        {balance === null ? null : (
          <>
            <dt>{t("balance")}</dt>
            <dd className="digits">{points(balance)}</dd>
            {short ? null : (
              <>
                <dt>{t("balanceAfter")}</dt>
                <dd className="digits">{points(balance - price)}</dd>
              </>
            )}
          </>
        )}
        {lack === null && estimate.data && estimate.data.etaEndSeconds !== null ? (
          <>
            <dt>{t("wait")}</dt>
            <dd className="digits" data-testid="wait">
              {duration(estimate.data.etaEndSeconds)}
            </dd>
          </>
        ) : null}
      </dl>
      <div aria-live="polite" className="stack tight">
        {lack !== null ? (
          <span className="soft">{t(lack === "mark" ? "markMissing" : "waitPicture")}</span>
        ) : estimate.data ? (
          estimate.data.etaEndSeconds === null ? (
            <Alert type="warning" showIcon role="note" title={t("waitUnknown", { detail: noStartText(estimate.data.detail) })} />
          ) : (
            <span className="soft">{estimate.data.etaStartSeconds ? t("waitStart", { time: duration(estimate.data.etaStartSeconds) }) : t("waitNow")}</span>
          )
        ) : null}
        {isAsked && lack !== null ? (
          <span role="alert" className="field-fault">
            {t(lack === "picture" ? "pictureMissing" : "markMissing")}
          </span>
        ) : null}
      </div>
      {short > 0 ? <Short short={short} /> : null}
      <Fault error={fault} />
      <Button
        type="primary"
        size="large"
        block
        icon={<ThunderboltOutlined />}
        loading={start.isPending}
        onClick={() => {
          setAsked(true);
          if (lack === null && !start.isPending) start.mutate();
        }}
      >
        {start.isPending ? t("starting") : t("start")}
      </Button>
      <span className="soft" style={{ fontSize: 13 }}>
        {t("payOnlyDone")}
      </span>
    </aside>
  );
}

/** Not enough points: the way to more, in place. */
function Short({ short }: { short: number }) {
  const t = useT();
  const me = useUser();
  const take = useMutation({ mutationFn: () => call(api.POST("/api/v1/points/trial")), onSuccess: () => queries.invalidateQueries({ queryKey: ["me"] }) });
  return (
    <Alert
      type="warning"
      showIcon
      role="note"
      title={t("pointsShort", { points: points(short) })}
      description={
        <div className="row" style={{ marginTop: 6 }}>
          {me.trialPoints ? (
            <Button size="small" type="primary" loading={take.isPending} onClick={() => take.mutate()}>
              {t("welcomeTake", { points: points(me.trialPoints) })}
            </Button>
          ) : null}
          <Link to="/wallet">{t("topUp")}</Link>
          {take.error ? <span className="field-fault">{errorText(take.error)}</span> : null}
        </div>
      }
    />
  );
}

function useDebounced<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

function CopyMenu({ tool, draft }: { tool: Tool; draft: Draft }) {
  const t = useT();
  const { message } = App.useApp();
  const [fault, setFault] = useState<unknown>(null);
  const copy = async (kind: "curl" | "python") => {
    const body = lackOf(tool, draft) === null ? await submissionOf(tool, draft) : { tool: tool.tool, inputs: { [tool.inputs[0]!]: "<inputId>" }, params: draft.params, priority: "NORMAL" as const };
    const isCopied = await writeClipboard(kind === "curl" ? asCurl(body) : asPython(body));
    if (isCopied) void message.success(t("copied"));
    else throw new OwnFault("notCopied");
  };
  const start = (kind: "curl" | "python") => {
    setFault(null);
    copy(kind).catch(setFault);
  };
  return (
    <>
      <Fault error={fault} />
      <Dropdown
        // eslint-disable-next-line jsx-a11y/no-autofocus -- a menu that opens takes the focus, for the arrow keys
        autoFocus
        trigger={["click"]}
        menu={{
          items: [
            { key: "curl", label: t("copyCurl"), onClick: () => start("curl") },
            { key: "python", label: t("copyPython"), onClick: () => start("python") },
          ],
        }}
      >
        <Button icon={<CodeOutlined />}>API</Button>
      </Dropdown>
    </>
  );
}
