import { Button, InputNumber, Segmented } from "antd";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { useLabel } from "@/api/dictionaries";
import type { Schemas } from "@/api/types";
import { dateTime, duration, number, useT, valueText } from "@/i18n";
import { Chart, type Line } from "@/ui/Chart";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { usePaged } from "@/ui/lists";
import { useSeries } from "./Charts";
import { useTenantName, useTenants } from "./data";

type Fairness = Schemas["FairnessBody"];
type Decision = Schemas["DecisionBody"];
type Compared = Schemas["SimulationBody"]["tenants"][number];

/** The API compares two hours at most. */
const WINDOWS = [900, 3600, 7200];
const percent = (share: number) => `${number(Math.round(share * 1000) / 10)} %`;

/** Shares against weights, the virtual clocks, the last choices, and a replay with other weights. */
export default function Shares() {
  const t = useT();
  const [windowSeconds, setWindow] = useState(3600);
  const found = useQuery({ queryKey: ["ops", "fairness", windowSeconds], queryFn: () => call(api.GET("/api/v1/ops/fairness", { params: { query: { windowSeconds } } })), refetchInterval: 30_000 });
  return (
    <Page title={t("opsShares")} text={t("opsSharesHint")} actions={<Segmented<number> aria-label={t("opsRange")} value={windowSeconds} onChange={setWindow} options={WINDOWS.map((value) => ({ value, label: duration(value) }))} />}>
      <div className="stack loose">
        {found.error ? <Fault error={found.error} retry={() => void found.refetch()} /> : found.data ? <Bars fairness={found.data} /> : <Waiting />}
        <OverTime />
        <WhatIf tenants={found.data?.tenants ?? []} windowSeconds={windowSeconds} />
        <Clocks />
        <Decisions />
      </div>
    </Page>
  );
}

function Bars({ fairness }: { fairness: Fairness }) {
  const t = useT();
  const tenantName = useTenantName();
  if (fairness.tenants.length === 0) return <p className="card soft data-empty">{t("opsNoService")}</p>;
  return (
    <section className="card stack tight" aria-label={t("opsShares")}>
      <div role="list">
        {fairness.tenants.map((tenant) => (
          <div key={tenant.tenantId} className="ops-share" role="listitem">
            <span className="ops-clip">
              {tenantName(tenant.tenantId)} <span className="soft">×{tenant.weight}</span>
            </span>
            <div className="ops-track" aria-hidden="true">
              <i style={{ width: `${tenant.share * 100}%` }} />
              {tenant.isContending ? <b style={{ insetInlineStart: `${tenant.idealShare * 100}%` }} /> : null}
            </div>
            <span className="digits">
              {percent(tenant.share)} <span className="soft">{tenant.isContending ? t("opsIdeal", { share: percent(tenant.idealShare) }) : t("opsAlone")}</span> · {duration(tenant.service)}
            </span>
          </div>
        ))}
      </div>
      <p className="soft">
        {fairness.worstPair
          ? t("opsWorstPair", { gap: duration(fairness.worst), bound: duration(fairness.worstPair.bound), jain: fairness.jain.toFixed(3) })
          : t("opsNotCompared")}
      </p>
    </section>
  );
}

/** The share of each tenant of a pool, and the share by weight among those who used the pool in the same step. */
function OverTime() {
  const t = useT();
  const tenantName = useTenantName();
  const { data: tenants } = useTenants();
  const [range, setRange] = useState<"1h" | "6h" | "24h" | "7d">("1h");
  const found = useSeries("share", range);
  const pools = useMemo(() => comparedShares(found.data?.series.points ?? [], (id) => tenants?.find((one) => one.tenantId === id)?.weight ?? null), [found.data, tenants]);
  return (
    <section className="stack" aria-labelledby="ops-over-time">
      <div className="row between">
        <div>
          <h2 id="ops-over-time">{t("opsSharesOverTime")}</h2>
          <p className="soft">{t("opsSharesOverTimeHint")}</p>
        </div>
        <Segmented<"1h" | "6h" | "24h" | "7d"> aria-label={`${t("opsRange")}: ${t("opsSharesOverTime")}`} value={range} onChange={setRange} options={(["1h", "6h", "24h", "7d"] as const).map((value) => ({ value, label: t(`opsRange_${value}`) }))} />
      </div>
      <Fault error={found.error} retry={() => void found.refetch()} />
      {found.data && pools.length === 0 ? <p className="card soft data-empty">{t("opsNoService")}</p> : null}
      {found.data
        ? pools.map(({ pool, tenants: lines, steps }) => (
            <section key={pool} className="card stack tight" aria-label={`${t("opsSharesOverTime")} ${valueText("pool", pool)}`}>
              <h3>{t("opsPoolCompeted", { pool: valueText("pool", pool), steps: number(steps) })}</h3>
              <Chart
                title={`${t("opsSharesOverTime")} ${valueText("pool", pool)}`}
                from={found.data.from}
                to={found.data.to}
                stepMs={found.data.series.stepSeconds * 1000}
                format={percent}
                lines={lines.flatMap((line, index) => [
                  { name: tenantName(line.tenantId), points: line.share },
                  ...(line.byWeight.length ? [{ name: t("opsByWeight", { tenant: tenantName(line.tenantId) }), points: line.byWeight, dashedOf: lines.slice(0, index).reduce((sum, one) => sum + 1 + (one.byWeight.length ? 1 : 0), 0) }] : []),
                ])}
              />
            </section>
          ))
        : null}
    </section>
  );
}

interface PoolShares {
  pool: string;
  /** Steps in which more than one tenant used the pool. */
  steps: number;
  tenants: { tenantId: string; share: Line["points"]; byWeight: Line["points"] }[];
}

const MOST_TENANTS = 4;

/** For each pool the tenants with the largest shares. Tenants compete in a step when more than one of them used the pool. */
export function comparedShares(points: (Schemas["PointBody"] & { pool?: string; tenantId?: string })[], weightOf: (tenantId: string) => number | null): PoolShares[] {
  const pools = new Map<string, typeof points>();
  for (const point of points) if (point.value > 0 && point.tenantId) pools.set(point.pool ?? "", [...(pools.get(point.pool ?? "") ?? []), point]);
  return [...pools].map(([pool, all]) => {
    const [weights, users, sums] = [new Map<string, number>(), new Map<string, number>(), new Map<string, number>()];
    for (const { at, tenantId, value } of all) {
      weights.set(at, (weights.get(at) ?? 0) + (weightOf(tenantId!) ?? Number.NaN));
      users.set(at, (users.get(at) ?? 0) + 1);
      sums.set(tenantId!, (sums.get(tenantId!) ?? 0) + value);
    }
    const largest = [...sums].sort(([, a], [, b]) => b - a).slice(0, MOST_TENANTS);
    return {
      pool,
      steps: [...users.values()].filter((count) => count > 1).length,
      tenants: largest.map(([tenantId]) => {
        const own = all.filter((point) => point.tenantId === tenantId);
        const competed = own.filter((point) => users.get(point.at)! > 1 && Number.isFinite(weights.get(point.at)));
        return {
          tenantId,
          share: own.map(({ at, value }) => ({ at: Date.parse(at), value })),
          byWeight: competed.map(({ at }) => ({ at: Date.parse(at), value: weightOf(tenantId)! / weights.get(at)! })),
        };
      }),
    };
  });
}

function WhatIf({ tenants, windowSeconds }: { tenants: Fairness["tenants"]; windowSeconds: number }) {
  const t = useT();
  const tenantName = useTenantName();
  const [weights, setWeights] = useState<Record<string, number | null>>({});
  const [caps, setCaps] = useState<Record<string, number | null>>({});
  const replay = useMutation({
    mutationFn: () => {
      const changed = tenants
        .map(({ tenantId }) => ({ tenantId, weight: weights[tenantId] ?? undefined, concurrency: caps[tenantId] ?? undefined }))
        .filter((one) => one.weight !== undefined || one.concurrency !== undefined);
      return call(api.POST("/api/v1/ops/simulate", { body: { changes: { tenants: changed }, windowSeconds } }));
    },
  });
  const waits = (one: Compared["before"]) => t("opsMeanWorst", { mean: duration(one.meanSeconds), worst: duration(one.worstSeconds) });
  return (
    <section className="stack" aria-labelledby="ops-what-if">
      <div>
        <h2 id="ops-what-if">{t("opsWhatIf")}</h2>
        <p className="soft">{t("opsWhatIfHint", { window: duration(windowSeconds) })}</p>
      </div>
      {tenants.length === 0 ? (
        <p className="card soft data-empty">{t("opsNoService")}</p>
      ) : (
        <form
          className="card stack"
          onSubmit={(event) => {
            event.preventDefault();
            replay.mutate();
          }}
        >
          {tenants.map(({ tenantId, weight }) => (
            <div key={tenantId} className="row">
              <strong style={{ flex: "1 1 180px" }}>{tenantName(tenantId)}</strong>
              <InputNumber<number> prefix={t("opsWeight")} aria-label={`${t("opsWeight")} ${tenantName(tenantId)}`} min={1} max={1000} placeholder={String(weight)} value={weights[tenantId] ?? null} onChange={(value) => setWeights({ ...weights, [tenantId]: value })} style={{ width: 170 }} />
              <InputNumber<number> prefix={t("opsCap")} aria-label={`${t("opsCap")} ${tenantName(tenantId)}`} min={0} max={100_000} placeholder={t("opsUnchanged")} value={caps[tenantId] ?? null} onChange={(value) => setCaps({ ...caps, [tenantId]: value })} style={{ width: 200 }} />
            </div>
          ))}
          <Fault error={replay.error} />
          <div>
            <Button type="primary" htmlType="submit" loading={replay.isPending}>
              {t("opsReplay")}
            </Button>
          </div>
        </form>
      )}
      <div aria-live="polite">
        {replay.data ? (
          <DataTable<Compared>
            label={t("opsWhatIf")}
            source={{ items: replay.data.tenants }}
            rowKey={(one) => `${one.tenantId}${one.pool}`}
            empty={t("opsNoService")}
            columns={[
              { title: t("opsTenant"), cell: (one) => tenantName(one.tenantId) },
              { title: t("opsPool"), cell: (one) => valueText("pool", one.pool) },
              { title: t("opsWaitBefore"), isNumber: true, cell: (one) => waits(one.before) },
              { title: t("opsWaitAfter"), isNumber: true, cell: (one) => waits(one.after) },
              { title: t("opsStarted"), isNumber: true, cell: (one) => `${number(one.before.started)} → ${number(one.after.started)}` },
            ]}
          />
        ) : null}
      </div>
    </section>
  );
}

function Clocks() {
  const t = useT();
  const tenantName = useTenantName();
  const found = useQuery({ queryKey: ["ops", "scheduler"], queryFn: () => call(api.GET("/api/v1/ops/scheduler")), refetchInterval: 15_000 });
  return (
    <section className="stack" aria-labelledby="ops-clocks">
      <div>
        <h2 id="ops-clocks">{t("opsClocks")}</h2>
        <p className="soft">{t("opsClocksHint")}</p>
      </div>
      <Fault error={found.error} retry={() => void found.refetch()} />
      {found.data?.pools.map((pool) => (
        <div key={pool.pool} className="stack tight">
          <h3>{t("opsPoolLine", { pool: valueText("pool", pool.pool), time: duration(pool.gvt), running: number(pool.running), slots: number(pool.slots) })}</h3>
          {pool.tenants.length ? (
            <DataTable
              label={valueText("pool", pool.pool)}
              source={{ items: pool.tenants }}
              rowKey={(tenant) => tenant.tenantId}
              empty={t("opsNothing")}
              columns={[
                { title: t("opsTenant"), cell: (tenant) => tenantName(tenant.tenantId) },
                { title: t("opsWeight"), isNumber: true, cell: (tenant) => number(tenant.weight) },
                { title: t("opsLastTag"), isNumber: true, cell: (tenant) => duration(tenant.lastVft) },
                { title: t("opsWaiting"), isNumber: true, cell: (tenant) => number(tenant.queued) },
                { title: t("opsRunning"), isNumber: true, cell: (tenant) => number(tenant.running) },
                { title: t("opsCap"), isNumber: true, cell: (tenant) => (tenant.cap === null ? t("opsNoLimit") : number(tenant.cap)) },
              ]}
            />
          ) : (
            <p className="soft">{t("opsNoTenants")}</p>
          )}
        </div>
      ))}
    </section>
  );
}

function Decisions() {
  const t = useT();
  const label = useLabel();
  const tenantName = useTenantName();
  const [isOpen, setOpen] = useState(false);
  const found = usePaged<Decision>(["ops", "decisions"], "/ops/decisions", {}, { isEnabled: isOpen });
  return (
    <section className="stack" aria-labelledby="ops-decisions">
      <div className="row between">
        <div>
          <h2 id="ops-decisions">{t("opsDecisions")}</h2>
          <p className="soft">{t("opsDecisionsHint")}</p>
        </div>
        <Button onClick={() => setOpen(true)} disabled={isOpen}>
          {t("opsShowDecisions")}
        </Button>
      </div>
      {isOpen ? (
        <DataTable<Decision>
          label={t("opsDecisions")}
          source={found}
          rowKey={(one) => `${one.at}${one.taskId}${one.node}${one.tag}`}
          empty={t("opsNoService")}
          columns={[
            { title: t("opsWhen"), cell: (one) => dateTime(one.at) },
            { title: t("opsTenant"), cell: (one) => tenantName(one.tenantId) },
            { title: t("opsLane"), cell: (one) => label("lanes", one.lane) },
            { title: t("opsReasonTitle"), cell: (one) => t(`opsDecision_${one.reason}`) },
            { title: t("opsDetail"), cell: (one) => <span className="soft">{t(`opsChoice_${one.reason}`, { tag: duration(one.tag), other: duration(one.runnerUp?.tag ?? 0) })}</span> },
          ]}
        />
      ) : null}
    </section>
  );
}
