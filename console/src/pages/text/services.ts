import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";
import type { Schemas } from "@/api/types";
import { currentLanguage, valueText } from "@/i18n";

export type Service = Schemas["ServiceBody"];

export const useServices = () => useQuery({ queryKey: ["services"], staleTime: 600_000, queryFn: async () => (await call(api.GET("/api/v1/services", { params: { query: { limit: 50 } } }))).items });

/** The title of a service. Chats are no service of the list. */
export const titleOf = (services: Service[] | undefined, service: string): string => services?.find((one) => one.service === service)?.title[currentLanguage()] ?? valueText("textService", service);

/** The answer of a service that answers with fields, such as a title and its keywords. */
export function partsOf(result: unknown): [name: string, value: string][] {
  if (typeof result !== "object" || result === null) return [];
  return Object.entries(result).flatMap(([name, value]) => {
    const text = Array.isArray(value) ? value.join(" · ") : String(value);
    return text ? [[name, text] as [string, string]] : [];
  });
}
