import { Button, Input, Select } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { label as labelOf, useLabel } from "@/api/dictionaries";
import { useAllowed, useTools, toolTitle } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, number, useT } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { StatusTag } from "@/ui/StatusTag";
import { usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { shortId, useLanes } from "./data";
import { OutcomeLine, outcomeOf, type Outcome } from "./Outcome";
import { TenantFilter } from "./TenantFilter";

export type OpsTask = Schemas["OpsTaskBody"];

/** Why a task or a step failed, in the user's language. */
export const failureText = (error: { code: string; message: string } | null): string => (error ? (labelOf("failures", error.code) ?? labelOf("error_codes", error.code) ?? error.message) : "–");

const FIELDS = ["q", "tenantId", "userId", "status", "tool", "lane", "from", "to"] as const;
const STATUSES = ["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"];

/** A time of the API for an input of type datetime-local, which has no zone. */
export const localTime = (iso: string | null): string => (iso ? new Date(Date.parse(iso) - new Date(iso).getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : "");

export default function Tasks() {
  const t = useT();
  const label = useLabel();
  const ask = useReason();
  const client = useQueryClient();
  const mayWrite = useAllowed("ops.write");
  const tools = useTools();
  const lanes = useLanes();
  const [params, setParams] = useSearchParams();
  const [q, setQ] = useState(params.get("q") ?? "");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const filter = Object.fromEntries(FIELDS.map((name) => [name, params.get(name) ?? ""]));
  const found = usePaged<OpsTask>(["ops", "tasks"], "/ops/tasks", filter, { everyMs: 15_000 });
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
      title: t(verb === "retry" ? "opsRetryTitle" : "opsCancelTitle", { count: number(chosen.size) }),
      text: t(verb === "retry" ? "opsRetryText" : "opsCancelText"),
      action: t(verb === "retry" ? "opsRetry" : "opsCancelTasks"),
      isDanger: verb === "cancel",
      isReasonNeeded: false,
      run: async () => {
        const body = { ids: [...chosen] };
        const { results } = await (verb === "retry" ? call(api.POST("/api/v1/ops/tasks/retry", { body })) : call(api.POST("/api/v1/ops/tasks/cancel", { body })));
        setOutcome(outcomeOf(results));
        setChosen(new Set());
        await client.invalidateQueries({ queryKey: ["ops", "tasks"] });
      },
    });
  return (
    <Page title={t("opsTasks")} text={t("opsTasksHint")}>
      <form
        className="ops-filter"
        onSubmit={(event) => {
          event.preventDefault();
          change("q", q.trim());
        }}
      >
        <label style={{ flex: "1 1 260px" }}>
          {t("opsFind")}
          <Input.Search allowClear enterButton={t("opsSearch")} value={q} placeholder={t("opsFindTask")} onChange={({ target }) => setQ(target.value)} onSearch={(value) => change("q", value.trim())} />
        </label>
        <label>
          {t("opsState")}
          <Select allowClear style={{ minWidth: 140 }} value={params.get("status")} onChange={(value) => change("status", value)} options={STATUSES.map((value) => ({ value, label: label("task_states", value) }))} />
        </label>
        <label>
          {t("opsTool")}
          <Select allowClear showSearch={{ optionFilterProp: "label" }} style={{ minWidth: 160 }} value={params.get("tool")} onChange={(value) => change("tool", value)} options={(tools.data ?? []).map((tool) => ({ value: tool.tool, label: toolTitle(tool, tool.tool) }))} />
        </label>
        <label>
          {t("opsLane")}
          <Select allowClear style={{ minWidth: 150 }} value={params.get("lane")} onChange={(value) => change("lane", value)} options={(lanes.data ?? []).filter((lane) => lane.pool === "gpu" || lane.pool === "enterprise").map((lane) => ({ value: lane.lane, label: label("lanes", lane.lane) }))} />
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
      </form>
      {mayWrite ? (
        <div className="row" style={{ marginBottom: 12 }}>
          <span className="soft">{t("opsChosen", { count: number(chosen.size) })}</span>
          <Button disabled={chosen.size === 0} onClick={() => act("retry")}>
            {t("opsRetry")}
          </Button>
          <Button danger disabled={chosen.size === 0} onClick={() => act("cancel")}>
            {t("opsCancelTasks")}
          </Button>
          <OutcomeLine outcome={outcome} />
        </div>
      ) : null}
      <DataTable<OpsTask>
        label={t("opsTasks")}
        source={found}
        rowKey={(task) => task.taskId}
        rowName={(task) => `${task.name || label("tools", task.tool)} ${shortId(task.taskId)}`}
        choice={mayWrite ? { chosen, change: setChosen } : undefined}
        empty={t("opsNoTasks")}
        columns={[
          {
            title: t("opsTask"),
            cell: (task) => (
              <>
                <Link to={`/ops/tasks/${task.taskId}`}>{task.name || label("tools", task.tool)}</Link>
                <br />
                <span className="soft" title={task.taskId}>
                  {shortId(task.taskId)}
                </span>
              </>
            ),
          },
          { title: t("opsTenant"), cell: (task) => <Link to={`/ops/tenants/${task.tenantId}`}>{task.tenantName}</Link> },
          { title: t("opsPerson"), cell: (task) => task.userEmail ?? shortId(task.userId) },
          { title: t("opsState"), cell: (task) => <StatusTag status={task.status} /> },
          { title: t("opsLane"), cell: (task) => label("lanes", task.lane) },
          { title: t("opsPoints"), isNumber: true, cell: (task) => number(task.chargedPoints) },
          { title: t("opsCreated"), cell: (task) => dateTime(task.createdAt) },
          { title: t("opsErrorTitle"), cell: (task) => <span title={task.error?.code}>{failureText(task.error)}</span> },
        ]}
      />
    </Page>
  );
}
