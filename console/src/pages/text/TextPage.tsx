import { Button } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link, useParams } from "react-router";
import { api, call } from "@/api/client";
import { label as labelOf, useLabel } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { number, points, useT, valueText } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { Copy } from "../developers/Copy";
import { DeveloperSwitch, useDeveloperView } from "./developer";
import { partsOf, titleOf, useServices } from "./services";
import { BLANK, follow, type Writing } from "./stream";
import { TEXT_STYLES } from "./styles";

type Generation = Schemas["GenerationBody"];

const LIVE = new Set(["PENDING_OCR", "QUEUED", "RUNNING"]);
const EVERY_MS = 4000;

/** One text: written letter by letter, kept through a reload, with its events for developers. */
export default function TextPage() {
  const t = useT();
  const label = useLabel();
  const client = useQueryClient();
  const { generationId = "" } = useParams();
  const mayCancel = useAllowed("task.cancel");
  const [writing, setWriting] = useState<Writing>(BLANK);
  const [isStopping, setStopping] = useState(false);
  const [stopFault, setStopFault] = useState<unknown>(null);
  const [showsEvents] = useDeveloperView();
  const services = useServices();
  const found = useQuery({
    queryKey: ["generation", generationId],
    queryFn: () => call(api.GET("/api/v1/generations/{generation_id}", { params: { path: { generation_id: generationId } } })) as Promise<Generation>,
    // The stream says when a text has ended; this finds it where no stream is read.
    refetchInterval: ({ state }) => (state.data && LIVE.has(state.data.status) ? EVERY_MS : false),
  });
  const [isConnected, setConnected] = useState(true);
  const latest = useRef<Writing>(BLANK);
  useEffect(() => {
    latest.current = BLANK;
    setWriting(BLANK);
    setConnected(true);
  }, [generationId]);
  // A connection that was cut goes on at the last event, as after a lost network.
  useEffect(() => {
    if (!isConnected) return;
    const stopper = new AbortController();
    const show = (next: Writing) => {
      latest.current = next;
      setWriting(next);
    };
    void follow(generationId, latest.current, show, stopper.signal);
    return () => stopper.abort();
  }, [generationId, isConnected]);
  const isEnded = writing.end !== null;
  useEffect(() => {
    if (!isEnded) return;
    void client.invalidateQueries({ queryKey: ["generation", generationId] });
    void client.invalidateQueries({ queryKey: ["generations"] });
    void client.invalidateQueries({ queryKey: ["me"] });
  }, [client, generationId, isEnded]);
  if (found.error) return <Fault error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Waiting />;
  const one = found.data;
  const status = writing.end === "done" ? "COMPLETED" : writing.end === "error" ? "FAILED" : writing.end === "cancelled" ? "CANCELLED" : writing.characters > 0 ? "RUNNING" : one.status;
  const text = writing.text || one.text;
  const isLive = LIVE.has(status);
  const parts = status === "COMPLETED" ? partsOf(one.result) : [];
  const read = one.stages[0]?.result as { tags: string[]; colours: string[]; text: string } | null | undefined;
  const stop = async () => {
    setStopping(true);
    setStopFault(null);
    try {
      await call(api.POST("/api/v1/generations/{generation_id}/cancel", { params: { path: { generation_id: generationId } } }));
    } catch (error) {
      setStopFault(error);
    } finally {
      setStopping(false);
    }
  };
  const code = writing.error ?? one.error?.code ?? null;
  return (
    <Page
      title={titleOf(services.data, one.service)}
      text={<Link to="/text">{t("txtAnother")}</Link>}
      actions={
        <>
          <span className={`tag ${TEXT_STYLES[status] ?? ""}`} role="status">
            <span className="dot" aria-hidden="true" />
            {valueText("text", status)}
          </span>
          {isLive && mayCancel ? (
            <Button danger loading={isStopping} onClick={() => void stop()}>
              {t("txtStop")}
            </Button>
          ) : null}
          <Copy text={parts.length ? parts.map(([, value]) => value).join("\n") : text} name={t("txtCopy")} />
        </>
      }
    >
      <div className="stack">
        <Fault error={stopFault} />
        <div className="card txt-paper" data-testid="text" translate="no">
          {parts.length ? <Parts parts={parts} /> : text || <span className="soft">{t(status === "PENDING_OCR" ? "txtReads" : status === "QUEUED" ? "txtWaits" : "txtEmpty")}</span>}
          {isLive ? <span className="txt-caret" aria-hidden="true" /> : null}
        </div>
        {read ? <p className="soft">{t("txtRead")} <span translate="no">{[...read.tags, ...read.colours, read.text].filter(Boolean).join(" · ")}</span></p> : null}
        {status === "FAILED" && code ? <p className="txt-fault">{labelOf("failures", code) ?? labelOf("error_codes", code) ?? code}</p> : null}
        <p className="soft">
          {t("txtFacts", { characters: number([...text].length), points: points(writing.points ?? one.chargedPoints) })}
        </p>
        <DeveloperSwitch />
        {showsEvents ? (
          <section className="card stack tight" aria-label={t("txtEvents")}>
            <dl className="txt-facts">
              <div>
                <dt>{t("txtQueue")}</dt>
                <dd>{label("lanes", writing.queueId ?? one.queueId)}</dd>
              </div>
              <div>
                <dt>{t("txtModel")}</dt>
                <dd translate="no">{`${writing.provider ?? one.provider} / ${writing.modelId ?? one.modelId}`}</dd>
              </div>
              <div>
                <dt>{t("txtAttempt")}</dt>
                <dd>{one.attempt}</dd>
              </div>
              <div>
                <dt>{t("txtUsage")}</dt>
                <dd>{one.usage ? `${number(one.usage.inputTokens)} + ${number(one.usage.outputTokens)} (${valueText("usage", one.usageSource ?? "")})` : "–"}</dd>
              </div>
              <div>
                <dt>{t("txtTrace")}</dt>
                <dd>
                  <code>{one.traceId}</code>
                </dd>
              </div>
            </dl>
            <div className="row">
              <Button size="small" disabled={isEnded} onClick={() => setConnected(!isConnected)}>
                {t(isConnected ? "txtCut" : "txtResume")}
              </Button>
              <span className="soft" role="status">
                {isEnded ? t("txtStreamEnded") : isConnected ? t("txtConnected") : t("txtCutAt", { id: writing.lastId ?? "–" })}
              </span>
            </div>
            <pre className="txt-events" role="region" tabIndex={0} aria-label={t("txtEvents")}>
              {writing.frames.map((frame) => `${frame.id ?? "-"}  ${frame.event}  ${JSON.stringify(frame.data)}`).join("\n")}
            </pre>
          </section>
        ) : null}
      </div>
    </Page>
  );
}

function Parts({ parts }: { parts: [name: string, value: string][] }) {
  return (
    <dl className="txt-parts">
      {parts.map(([name, value]) => (
        <div key={name}>
          <dt translate="yes">{valueText("textPart", name)}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
