import { App, Button, Input, Select } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { label as labelOf, useLabel } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, duration, number, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { TEXT_STYLES } from "../text/styles";
import { shortId, useLanes, useTenantName } from "./data";
import { localTime } from "./Tasks";
import { TenantFilter } from "./TenantFilter";

type Text = Schemas["OpsGenerationBody"];

const STATUSES = ["QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"];

/** Texts of all tenants. */
export default function Texts() {
  const t = useT();
  const label = useLabel();
  const ask = useReason();
  const tenantName = useTenantName();
  const client = useQueryClient();
  const { message } = App.useApp();
  const mayWrite = useAllowed("ops.write");
  const lanes = useLanes();
  const [params, setParams] = useSearchParams();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const found = usePaged<Text>(["ops", "generations"], "/ops/generations", { status: params.get("status"), lane: params.get("lane"), from: params.get("from"), to: params.get("to"), tenantId: params.get("tenantId") }, { everyMs: 15_000 });
  const change = (name: string, value: string | null | undefined) => {
    setChosen(new Set());
    setParams((before) => {
      if (value) before.set(name, value);
      else before.delete(name);
      return before;
    });
  };
  const act = (verb: "retry" | "cancel") =>
    ask({
      title: t(verb === "retry" ? "opsRetryTextsTitle" : "opsCancelTextsTitle", { count: number(chosen.size) }),
      text: t(verb === "retry" ? "opsRetryText" : "opsCancelText"),
      action: t(verb === "retry" ? "opsRetryRuns" : "opsCancelRuns"),
      isDanger: verb === "cancel",
      isReasonNeeded: false,
      run: async () => {
        const body = { ids: [...chosen] };
        const { results } = await (verb === "retry" ? call(api.POST("/api/v1/ops/generations/retry", { body })) : call(api.POST("/api/v1/ops/generations/cancel", { body })));
        const refused = results.filter((one) => one.errorCode !== null).length;
        void message.info(t("opsActed", { done: number(results.length - refused), refused: number(refused) }));
        setChosen(new Set());
        await client.invalidateQueries({ queryKey: ["ops", "generations"] });
      },
    });
  return (
    <Page title={t("opsTexts")} text={t("opsTextsHint")}>
      <div className="ops-filter">
        <label>
          {t("opsState")}
          <Select allowClear style={{ minWidth: 150 }} value={params.get("status")} onChange={(value) => change("status", value)} options={STATUSES.map((value) => ({ value, label: valueText("text", value) }))} />
        </label>
        <label>
          {t("opsLane")}
          <Select allowClear style={{ minWidth: 150 }} value={params.get("lane")} onChange={(value) => change("lane", value)} options={(lanes.data ?? []).filter((lane) => lane.pool === "text").map((lane) => ({ value: lane.lane, label: label("lanes", lane.lane) }))} />
        </label>
        <TenantFilter value={params.get("tenantId")} change={(value) => change("tenantId", value)} />
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
      <DataTable<Text>
        label={t("opsTexts")}
        source={found}
        rowKey={(text) => text.generationId}
        rowName={(text) => shortId(text.generationId)}
        choice={mayWrite ? { chosen, change: setChosen } : undefined}
        empty={t("opsNoTexts")}
        columns={[
          { title: t("opsText"), cell: (text) => <span title={text.generationId}>{text.service} · {shortId(text.generationId)}</span> },
          { title: t("opsTenant"), cell: (text) => tenantName(text.tenantId) },
          { title: t("opsState"), cell: (text) => <span className={`tag ${TEXT_STYLES[text.status] ?? ""}`}>{valueText("text", text.status)}</span> },
          { title: t("opsLane"), cell: (text) => label("lanes", text.queueId) },
          { title: t("opsModel"), cell: (text) => `${text.provider}/${text.modelId}` },
          { title: t("opsFirstToken"), isNumber: true, cell: (text) => (text.firstTokenAt ? duration((Date.parse(text.firstTokenAt) - Date.parse(text.createdAt)) / 1000) : "–") },
          { title: t("opsPoints"), isNumber: true, cell: (text) => number(text.chargedPoints) },
          { title: t("opsTook"), isNumber: true, cell: (text) => (text.endedAt ? duration((Date.parse(text.endedAt) - Date.parse(text.createdAt)) / 1000) : "–") },
          { title: t("opsAttemptTitle"), isNumber: true, cell: (text) => number(text.attempt) },
          { title: t("opsCreated"), cell: (text) => dateTime(text.createdAt) },
          { title: t("opsTrace"), cell: (text) => <code title={text.traceId}>{shortId(text.traceId)}</code> },
          { title: t("opsErrorTitle"), cell: (text) => (text.errorCode ? <span title={text.errorCode}>{labelOf("failures", text.errorCode) ?? labelOf("error_codes", text.errorCode) ?? text.errorCode}</span> : "–") },
        ]}
      />
    </Page>
  );
}
