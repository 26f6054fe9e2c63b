import { useQuery } from "@tanstack/react-query";
import { currentLanguage, translate, useLanguage, type Language } from "@/i18n";
import { WORDS, type Word } from "@/i18n/words";
import { api, call } from "./client";
import { ApiError, OwnFault, Unreachable } from "./errors";

export type Dictionary = "tools" | "groups" | "steps" | "lanes" | "presets" | "error_codes" | "failures" | "node_types" | "task_states" | "node_states";

const KEY = "artiway.labels";
const DAY_MS = 86_400_000;

type Labels = Record<string, readonly [en: string, zh: string]>;
let labels: Labels = {};

function stored(): { at: number; labels: Labels } | null {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "null") as { at: number; labels: Labels } | null;
  } catch {
    return null;
  }
}

const kept = stored();
if (kept) labels = kept.labels;

/** All labels in one request, kept for a day. */
export function useDictionaries(): void {
  useQuery({
    queryKey: ["dictionaries"],
    staleTime: DAY_MS,
    gcTime: Infinity,
    initialData: kept?.labels,
    initialDataUpdatedAt: kept?.at,
    queryFn: async () => {
      const { dictionaries } = await call(api.GET("/api/v1/dictionaries"));
      labels = Object.fromEntries(Object.entries(dictionaries).flatMap(([type, all]) => all.map((one) => [`${type}:${one.key}`, [one.en, one.zh] as const])));
      localStorage.setItem(KEY, JSON.stringify({ at: Date.now(), labels }));
      return labels;
    },
  });
}

export function label(type: Dictionary, key: string, language: Language = currentLanguage()): string | null {
  return labels[`${type}:${key}`]?.[language === "zh" ? 1 : 0] ?? null;
}

/** The label of a key, or the key itself; follows the language. */
export function useLabel(): (type: Dictionary, key: string) => string {
  const language = useLanguage();
  useDictionaries();
  return (type, key) => label(type, key, language) ?? key;
}

/** A text for the user in their language: from the dictionaries, from the bundle, else the server's English one. */
export function errorText(error: unknown): string {
  if (error instanceof OwnFault) return translate(error.word, error.values);
  if (error instanceof Unreachable) return translate("errorUnreachable");
  // A browser reports a lost connection as a TypeError, with a text of its own in English.
  if (error instanceof TypeError) return translate("errorUnreachable");
  if (!(error instanceof ApiError)) return error instanceof Error && error.name === "Error" ? error.message : translate("errorUnknown");
  const known = label("error_codes", error.code) ?? label("failures", error.code);
  if (error.fields.length && error.code === "REQUEST_422_INVALID") return error.fields.map((one) => reasonText(one.reason)).join(" ");
  if (known) return known;
  const key = `code_${error.code}`;
  return key in WORDS ? translate(key as Word) : error.message;
}

/** The reasons of pydantic that a form can meet, in the user's language. */
export function reasonText(reason: string): string {
  const rules: [RegExp, Word, string][] = [
    [/at least (\d+) character/, "tooShort", "minimum"],
    [/at most (\d+) character/, "tooLong", "maximum"],
    [/greater than or equal to (-?[\d.]+)/, "atLeast", "minimum"],
    [/less than or equal to (-?[\d.]+)/, "atMostValue", "maximum"],
  ];
  for (const [pattern, word, name] of rules) {
    const found = pattern.exec(reason);
    if (found) return translate(word, { [name]: found[1]! });
  }
  if (/field required/i.test(reason)) return translate("required");
  if (/match pattern/.test(reason)) return translate("wrongFormat");
  if (/e-?mail/i.test(reason)) return translate("invalidEmail");
  return translate("notAccepted", { reason });
}
