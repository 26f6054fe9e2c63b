import { QueryClient, useQuery } from "@tanstack/react-query";
import { currentLanguage } from "@/i18n";
import { api, call } from "./client";
import type { Me, Tool } from "./types";

/** One cache. The client repeats requests by itself, so the cache does not; it also runs while the browser says "offline". */
export const queries = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 30_000, gcTime: 10 * 60_000, networkMode: "always", refetchOnWindowFocus: false },
    mutations: { retry: false, networkMode: "always" },
  },
});

export const meQuery = { queryKey: ["me"] as const, queryFn: (): Promise<Me> => call(api.GET("/api/v1/me")), staleTime: 60_000 };

export const useMe = () => useQuery(meQuery);

/** The person inside the shell, which is drawn only once they are known. */
export function useUser(): Me {
  const { data } = useMe();
  if (!data) throw new Error("useUser is for pages inside the shell");
  return data;
}

export const useAllowed = (permission: string): boolean => useUser().permissions.includes(permission);

export const toolsQuery = {
  queryKey: ["tools"] as const,
  queryFn: async (): Promise<Tool[]> => (await call(api.GET("/api/v1/tools", { params: { query: { limit: 100 } } }))).items,
  staleTime: 10 * 60_000,
};

export const useTools = () => useQuery(toolsQuery);

export const toolTitle = (tool: Tool | undefined, name: string): string => tool?.title[currentLanguage()] ?? name;
