import { Button, InputNumber, Popover } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { errorText, useLabel } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import { raw } from "@/api/raw";
import type { Schemas } from "@/api/types";
import { number, useT, valueText } from "@/i18n";
import { Act } from "@/ui/Act";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { useReason } from "@/ui/useReason";
import { useLaneName, useLanes, type Lane } from "./data";

type Model = Schemas["ModelBody"];

export default function Lanes() {
  const t = useT();
  const label = useLabel();
  const ask = useReason();
  const client = useQueryClient();
  const mayWrite = useAllowed("ops.write");
  const lanes = useLanes();
  const models = useQuery({ queryKey: ["ops", "models"], queryFn: async () => (await call(api.GET("/api/v1/ops/models", { params: { query: { limit: 100 } } }))).items, refetchInterval: 15_000 });
  const refresh = () => client.invalidateQueries({ queryKey: ["ops"] });
  const laneName = useLaneName();
  const nameOf = (lane: Lane) => laneName(lane.lane);
  const pause = (lane: Lane) =>
    ask({
      title: t("opsPauseTitle", { lane: nameOf(lane) }),
      text: t("opsPauseText", { depth: number(lane.depth), running: number(lane.running), limit: number(lane.limit) }),
      action: t("opsPause"),
      isDanger: true,
      run: async (reason) => {
        await raw("POST", `/ops/lanes/${lane.lane}/pause`, { reason });
        await refresh();
      },
    });
  const resume = async (lane: Lane) => {
    await call(api.POST("/api/v1/ops/lanes/{lane}/resume", { params: { path: { lane: lane.lane } } }));
    await refresh();
  };
  const change = async (lane: Lane, body: Schemas["LaneChangeBody"]) => {
    await call(api.PATCH("/api/v1/ops/lanes/{lane}", { params: { path: { lane: lane.lane } }, body }));
    await refresh();
  };
  return (
    <Page title={t("opsLanes")} text={t("opsLanesHint")}>
      <div className="stack loose">
        <DataTable<Lane>
          label={t("opsLanes")}
          source={{ items: lanes.data ?? [], error: lanes.error, isPending: lanes.isPending, refetch: () => void lanes.refetch() }}
          rowKey={(lane) => lane.lane}
          empty={t("opsNothing")}
          columns={[
            {
              title: t("opsLane"),
              cell: (lane) => (
                <>
                  <strong>{nameOf(lane)}</strong> <code className="soft">{lane.lane}</code>
                </>
              ),
            },
            { title: t("opsPool"), cell: (lane) => valueText("pool", lane.pool) },
            { title: t("opsState"), cell: (lane) => <span className={`tag ${lane.paused ? "warn" : "good"}`}>{t(lane.paused ? "opsPaused" : "opsOpen")}</span> },
            { title: t("opsWaiting"), isNumber: true, cell: (lane) => number(lane.depth) },
            { title: t("opsRunning"), isNumber: true, cell: (lane) => number(lane.running) },
            { title: t("opsParallelism"), isNumber: true, cell: (lane) => <Limit name={t("opsParallelism")} of={nameOf(lane)} value={lane.parallelism} mayWrite={mayWrite} unset={t("opsNoLimit")} save={(parallelism) => change(lane, { parallelism })} /> },
            { title: t("opsShareCap"), isNumber: true, cell: (lane) => <Limit name={t("opsShareCap")} of={nameOf(lane)} value={lane.sharePercent} mayWrite={mayWrite} unset={t("opsNoLimit")} unit=" %" minimum={1} maximum={100} save={(sharePercent) => change(lane, { sharePercent })} /> },
            { title: t("opsDepthLimit"), isNumber: true, cell: (lane) => <Limit name={t("opsDepthLimit")} of={nameOf(lane)} value={lane.limit} mayWrite={mayWrite} unset={t("opsDefault")} save={(limit) => change(lane, { limit })} /> },
            mayWrite && {
              title: t("opsActions"),
              isQuiet: true,
              cell: (lane) =>
                lane.paused ? (
                  <Act type="primary" text={t("opsResume")} name={`${t("opsResume")} ${nameOf(lane)}`} done={t("opsResumed", { lane: nameOf(lane) })} run={() => resume(lane)} />
                ) : (
                  <Button size="small" aria-label={`${t("opsPause")} ${nameOf(lane)}`} onClick={() => pause(lane)}>
                    {t("opsPause")}
                  </Button>
                ),
            },
          ]}
        />
        <section className="stack" aria-labelledby="ops-models">
          <div>
            <h2 id="ops-models">{t("opsModels")}</h2>
            <p className="soft">{t("opsModelsHint")}</p>
          </div>
          <DataTable<Model>
            label={t("opsModels")}
            source={{ items: models.data ?? [], error: models.error, isPending: models.isPending, refetch: () => void models.refetch() }}
            rowKey={(model) => model.model}
            empty={t("opsNoModels")}
            columns={[
              { title: t("opsModel"), cell: (model) => <code>{model.model}</code> },
              { title: t("opsSteps"), cell: (model) => model.steps.map((step) => label("steps", step)).join(", ") },
              { title: t("opsWaiting"), isNumber: true, cell: (model) => number(model.waiting) },
              { title: t("opsRunning"), isNumber: true, cell: (model) => number(model.running) },
              {
                title: t("opsLimit"),
                isNumber: true,
                cell: (model) => (
                  <Limit
                    name={t("opsLimit")}
                    of={model.model}
                    value={model.limit}
                    mayWrite={mayWrite}
                    unset={t("opsNoLimit")}
                    save={async (limit) => {
                      await call(api.PUT("/api/v1/ops/models/{model}", { params: { path: { model: model.model } }, body: { limit } }));
                      await refresh();
                    }}
                  />
                ),
              },
            ]}
          />
        </section>
      </div>
    </Page>
  );
}

interface LimitProperties {
  name: string;
  of: string;
  value: number | null;
  /** What applies without an own value. */
  unset: string;
  unit?: string;
  minimum?: number;
  maximum?: number;
  mayWrite: boolean;
  save: (value: number | null) => Promise<void>;
}

/** A number that can be set and unset. */
function Limit({ name, of, value, unset, unit = "", minimum = 0, maximum = 1_000_000, mayWrite, save }: LimitProperties) {
  const t = useT();
  const [isOpen, setOpen] = useState(false);
  const [next, setNext] = useState<number | null>(value);
  const [fault, setFault] = useState<unknown>(null);
  const [isSaving, setSaving] = useState(false);
  const text = value === null ? unset : `${number(value)}${unit}`;
  if (!mayWrite) return text;
  const send = async (chosen: number | null) => {
    setSaving(true);
    setFault(null);
    try {
      await save(chosen);
      setOpen(false);
    } catch (error) {
      setFault(error);
    } finally {
      setSaving(false);
    }
  };
  return (
    <Popover
      trigger="click"
      open={isOpen}
      destroyOnHidden
      onOpenChange={(open) => {
        setNext(value);
        setFault(null);
        setOpen(open);
      }}
      title={`${name} · ${of}`}
      content={
        <form
          className="stack tight"
          style={{ width: 230 }}
          onSubmit={(event) => {
            event.preventDefault();
            if (next !== null) void send(next);
          }}
        >
          {/* The popover was opened for this field. */}
          {/* eslint-disable-next-line jsx-a11y/no-autofocus */}
          <InputNumber<number> autoFocus aria-label={`${name} ${of}`} min={minimum} max={maximum} precision={0} value={next} onChange={setNext} style={{ width: "100%" }} />
          {fault ? (
            <span role="alert" className="ops-fault">
              {errorText(fault)}
            </span>
          ) : null}
          <div className="row">
            <Button size="small" type="primary" htmlType="submit" disabled={next === null} loading={isSaving}>
              {t("opsSet")}
            </Button>
            <Button size="small" onClick={() => void send(null)} disabled={isSaving}>
              {unset}
            </Button>
          </div>
        </form>
      }
    >
      <Button size="small" type="text" className="digits" aria-label={`${t("opsChange")} ${name} ${of}: ${text}`}>
        {text}
      </Button>
    </Popover>
  );
}
