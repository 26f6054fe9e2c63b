import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";
import { useLabel } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { valueText } from "@/i18n";

export type Lane = Schemas["LaneBody"];
export type Worker = Schemas["WorkerBody"];
export type Tenant = Schemas["TenantBody"];

const EVERY_MS = 15_000;
const MOST_NAMES = 300;

export const useHealth = () => useQuery({ queryKey: ["ops", "health"], queryFn: () => call(api.GET("/api/v1/ops/health")), refetchInterval: EVERY_MS });

export const useLanes = () =>
  useQuery({ queryKey: ["ops", "lanes"], queryFn: async () => (await call(api.GET("/api/v1/ops/lanes", { params: { query: { limit: 100 } } }))).items, refetchInterval: EVERY_MS });

export const useDeadLetterQueues = () =>
  useQuery({ queryKey: ["ops", "dlq"], queryFn: async () => (await call(api.GET("/api/v1/ops/dlq", { params: { query: { limit: 100 } } }))).items, refetchInterval: 2 * EVERY_MS });

export const useInvariants = (isEnabled = true) =>
  useQuery({ queryKey: ["ops", "invariants"], enabled: isEnabled, queryFn: () => call(api.GET("/api/v1/ops/invariants")), refetchInterval: 4 * EVERY_MS });

export const useTenants = () => {
  const isAllowed = useAllowed("tenant.manage");
  return useQuery({
    queryKey: ["tenants", "names"],
    enabled: isAllowed,
    staleTime: 5 * 60_000,
    queryFn: async () => {
      const items: Tenant[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await call(api.GET("/api/v1/tenants", { params: { query: { limit: 100, cursor } } }));
        items.push(...page.items);
        if (!page.nextCursor || items.length >= MOST_NAMES) return items;
        cursor = page.nextCursor;
      }
    },
  });
};

/** The name of a tenant; its id, shortened, for operators who may not read the names. */
export function useTenantName(): (tenantId: string) => string {
  const { data } = useTenants();
  return (tenantId) => data?.find((one) => one.tenantId === tenantId)?.name ?? shortId(tenantId);
}

export const shortId = (id: string): string => (id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-5)}` : id);

/** The name of a lane: of steps and texts from the dictionaries, of runs from the bundle. */
export function useLaneName(): (lane: string) => string {
  const label = useLabel();
  return (lane) => (lane.startsWith("run_") ? valueText("runLane", lane.slice(4)) : label("lanes", lane));
}

/** The value of a label of a series, in words. */
export function useSeriesLabel(): (key: string, value: string) => string {
  const label = useLabel();
  const laneName = useLaneName();
  const tenantName = useTenantName();
  return (key, value) => {
    if (key === "lane") return laneName(value);
    if (key === "step") return label("steps", value);
    if (key === "tenantId") return tenantName(value);
    if (key === "pool") return valueText("pool", value);
    if (key === "queue") return valueText("dead", value);
    if (key === "objective") return value.startsWith("wait_") ? `${valueText("objective", "wait")} ${laneName(value.slice(5))}` : valueText("objective", value);
    if (key !== "status") return value;
    const text = valueText("run", value);
    return text === value ? valueText("status", value) : text;
  };
}

export const midnight = (daysAgo = 0): string => {
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  day.setDate(day.getDate() - daysAgo);
  return day.toISOString();
};

type Reading = Schemas["ReadingBody"];

/** The series that shows when a reading went over its limit, and what turns its values into those of the reading. */
export const SERIES_OF_READING = { nodesWaiting: ["waiting", 1], runBacklog: ["run_backlog", 1], runFailures: ["run_failures", 100] } as const;

/** Since when a reading is over its limit. An age says so itself; a count is found in its series; else it is not known. */
export function overSince(reading: Reading, series: Schemas["SeriesBody"] | undefined, now: number): string | null {
  if (reading.value === null) return null;
  if (reading.unit === "s") return new Date(now - (reading.value - reading.limit) * 1000).toISOString();
  const [, scale] = SERIES_OF_READING[reading.name as keyof typeof SERIES_OF_READING] ?? [null, 1];
  const sums = new Map<string, number>();
  for (const point of series?.points ?? []) sums.set(point.at, (sums.get(point.at) ?? 0) + point.value * scale);
  let since: string | null = null;
  for (const at of [...sums.keys()].sort()) since = sums.get(at)! > reading.limit ? (since ?? at) : null;
  return since;
}
