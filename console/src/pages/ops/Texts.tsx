import { Button, Input, Select } from "antd";
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
import { titleOf, useServices } from "../text/services";
import { TEXT_STYLES } from "../text/styles";
import { shortId, useLanes, useTenantName } from "./data";
import { OutcomeLine, outcomeOf, type Outcome } from "./Outcome";
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
  const mayWrite = useAllowed("ops.write");
  const lanes = useLanes();
  const services = useServices();
  const [params, setParams] = useSearchParams();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const found = usePaged<Text>(["ops", "generations"], "/ops/generations", { status: params.get("status"), lane: params.get("lane"), service: params.get("service"), from: params.get("from"), to: params.get("to"), tenantId: params.get("tenantId") }, { everyMs: 15_000 });
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
        setOutcome(outcomeOf(results));
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
        <label>
          {t("opsService")}
          <Select allowClear style={{ minWidth: 150 }} value={params.get("service")} onChange={(value) => change("service", value)} options={(services.data ?? []).map((one) => ({ value: one.service, label: titleOf(services.data, one.service) }))} />
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
      </div>
      {mayWrite ? (
        <div className="row" style={{ marginBottom: 12 }}>
          <span className="soft">{t("opsChosen", { count: number(chosen.size) })}</span>
          <Button disabled={chosen.size === 0} onClick={() => act("retry")}>
            {t("opsRetryRuns")}
          </Button>
          <Button danger disabled={chosen.size === 0} onClick={() => act("cancel")}>
            {t("opsCancelRuns")}
          </Button>
          <OutcomeLine outcome={outcome} />
        </div>
      ) : null}
      <DataTable<Text>
        label={t("opsTexts")}
        source={found}
        rowKey={(text) => text.generationId}
        rowName={(text) => shortId(text.generationId)}
        choice={mayWrite ? { chosen, change: setChosen } : undefined}
        empty={t("opsNoTexts")}
        columns={[
          { title: t("opsText"), cell: (text) => (
              <>
                {titleOf(services.data, text.service)}
                <br />
                <code className="soft" title={text.generationId}>
                  {shortId(text.generationId)}
                </code>
              </>
            ) },
          { title: t("opsTenant"), cell: (text) => tenantName(text.tenantId) },
          { title: t("opsState"), cell: (text) => <span className={`tag ${TEXT_STYLES[text.status] ?? ""}`}>{valueText("text", text.status)}</span> },
          { title: t("opsLane"), cell: (text) => label("lanes", text.queueId) },
          { title: t("opsModel"), cell: (text) => <code>{`${text.provider}/${text.modelId}`}</code> },
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
