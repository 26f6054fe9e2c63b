import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";
import type { Schemas } from "@/api/types";
import { currentLanguage, valueText } from "@/i18n";

export type Service = Schemas["ServiceBody"];

export const useServices = () => useQuery({ queryKey: ["services"], staleTime: 600_000, queryFn: async () => (await call(api.GET("/api/v1/services", { params: { query: { limit: 50 } } }))).items });

/** The title of a service. Chats are no service of the list. */
export const titleOf = (services: Service[] | undefined, service: string): string => services?.find((one) => one.service === service)?.title[currentLanguage()] ?? valueText("textService", service);
