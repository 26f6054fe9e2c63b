import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";

export type Lane = Schemas["LaneBody"];
export type Worker = Schemas["WorkerBody"];
export type Tenant = Schemas["TenantBody"] & { balance?: number; users?: number; lastActiveAt?: string | null };

const EVERY_MS = 15_000;

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
    queryFn: async () => (await call(api.GET("/api/v1/tenants", { params: { query: { limit: 100 } } }))).items,
  });
};

/** The name of a tenant; its id, shortened, for operators who may not read the names. */
export function useTenantName(): (tenantId: string) => string {
  const { data } = useTenants();
  return (tenantId) => data?.find((one) => one.tenantId === tenantId)?.name ?? shortId(tenantId);
}

export const shortId = (id: string): string => (id.length > 16 ? `${id.slice(0, 8)}…${id.slice(-5)}` : id);

export const midnight = (daysAgo = 0): string => {
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  day.setDate(day.getDate() - daysAgo);
  return day.toISOString();
};
