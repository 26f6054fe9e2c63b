import { Input, Select } from "antd";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import type { Schemas } from "@/api/types";
import { number, points, useT } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { shortId } from "./data";
import { TenantFilter } from "./TenantFilter";

type Line = Schemas["MarginLineBody"];

const GROUPS = { "day,model": "opsMarginsBy_day_model", model: "opsMarginsBy_model", service: "opsMarginsBy_service", tenant: "opsMarginsBy_tenant", user: "opsMarginsBy_user" } as const;
type Group = keyof typeof GROUPS;
const MOST_LINES = 1000;

const utcDay = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10);
const isGroup = (value: string | null): value is Group => value !== null && value in GROUPS;
/** Two places: a cost is often a fraction of a point. */
export const fraction = (value: number): string => number(Math.round(value * 100) / 100);
/** How much of a line's tokens no provider counted, in percent; null if all were counted. */
export const estimatedShare = (line: Pick<Line, "inputTokens" | "outputTokens" | "estimatedTokens">): number | null =>
  line.estimatedTokens === 0 ? null : Math.max(1, Math.round((100 * line.estimatedTokens) / (line.inputTokens + line.outputTokens)));

/** What providers of texts cost against the points that were charged. */
export default function Margins() {
  const t = useT();
  const [params, setParams] = useSearchParams();
  const asked = params.get("groupBy");
  const group: Group = isGroup(asked) ? asked : "day,model";
  const from = params.get("from") ?? utcDay(29);
  const to = params.get("to") ?? utcDay(0);
  const tenantId = params.get("tenantId");
  const query = { groupBy: group, from, to, tenantId: tenantId ?? undefined, limit: MOST_LINES };
  const found = useQuery({ queryKey: ["ops", "margins", query], queryFn: () => call(api.GET("/api/v1/ops/margins", { params: { query } })) });
  const change = (name: string, value: string | undefined) =>
    setParams((before) => {
      if (value) before.set(name, value);
      else before.delete(name);
      return before;
    });
  const total = found.data?.total;
  return (
    <Page title={t("opsMargins")} text={t("opsMarginsHint")}>
      <div className="ops-filter">
        <label>
          {t("opsMarginsBy")}
          <Select<Group> style={{ minWidth: 150 }} value={group} onChange={(value) => change("groupBy", value)} options={(Object.keys(GROUPS) as Group[]).map((value) => ({ value, label: t(GROUPS[value]) }))} />
        </label>
        <TenantFilter value={tenantId} change={(value) => change("tenantId", value)} />
        <label>
          {t("opsFrom")}
          <Input type="date" value={from} max={to} onChange={({ target }) => change("from", target.value)} />
        </label>
        <label>
          {t("opsTo")}
          <Input type="date" value={to} min={from} onChange={({ target }) => change("to", target.value)} />
        </label>
      </div>
      <div className="stack">
        {total ? <p aria-live="polite">{t("opsMarginsTotal", { charged: points(total.chargedPoints), cost: fraction(total.costPoints), margin: fraction(total.marginPoints) })}</p> : null}
        {found.data?.nextCursor ? <p className="soft">{t("opsMarginsCut", { count: number(MOST_LINES) })}</p> : null}
        <DataTable<Line>
          label={t("opsMargins")}
          source={{ items: found.data?.items ?? [], error: found.error, isPending: found.isPending, refetch: () => void found.refetch() }}
          rowKey={(one) => [one.day, one.model, one.service, one.tenantId, one.userId].join(" ")}
          empty={t("opsMarginsNone")}
          columns={[
            group === "day,model" && { title: t("opsMarginsDay"), cell: (one) => one.day },
            group.includes("model") && { title: t("opsMarginsBy_model"), cell: (one) => one.model ?? <span className="soft">{t("opsMarginsNoModel")}</span> },
            group === "service" && { title: t("opsMarginsBy_service"), cell: (one) => one.service },
            group === "user" && { title: t("opsMarginsBy_user"), cell: (one) => one.email ?? shortId(one.userId ?? "") },
            (group === "tenant" || group === "user") && { title: t("opsTenant"), cell: (one) => one.tenantName ?? shortId(one.tenantId ?? "") },
            { title: t("opsMarginsCharged"), isNumber: true, cell: (one) => number(one.chargedPoints) },
            { title: t("opsMarginsCost"), isNumber: true, cell: (one) => fraction(one.costPoints) },
            { title: t("opsMarginsMargin"), isNumber: true, cell: (one) => <span className={one.marginPoints < 0 ? "ops-fault" : undefined}>{fraction(one.marginPoints)}</span> },
            { title: t("opsMarginsTexts"), isNumber: true, cell: (one) => t("opsMarginsTextsOf", { texts: number(one.texts), failed: number(one.failed), cancelled: number(one.cancelled), free: number(one.freeTexts) }) },
            { title: t("opsMarginsCalls"), isNumber: true, cell: (one) => number(one.calls) },
            { title: t("opsMarginsTokens"), isNumber: true, cell: (one) => <Tokens line={one} /> },
          ]}
        />
      </div>
    </Page>
  );
}

function Tokens({ line }: { line: Line }) {
  const t = useT();
  const share = estimatedShare(line);
  return (
    <>
      {number(line.inputTokens)}, {number(line.outputTokens)}
      {share === null ? null : <span className="soft"> · {t("opsMarginsEstimated", { share: `${number(share)} %` })}</span>}
    </>
  );
}
