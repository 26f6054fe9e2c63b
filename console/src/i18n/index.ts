import { useMemo, useSyncExternalStore } from "react";
import { WORDS, type Word } from "./words";

export type Language = "en" | "zh";
export type Translate = (key: Word, values?: Record<string, string | number>) => string;

const KEY = "artiway.language";
const listeners = new Set<() => void>();
let language: Language = (localStorage.getItem(KEY) ?? navigator.language).startsWith("zh") ? "zh" : "en";
document.documentElement.lang = locale();

export function currentLanguage(): Language {
  return language;
}

export function setLanguage(next: Language): void {
  language = next;
  localStorage.setItem(KEY, next);
  document.documentElement.lang = locale();
  for (const listener of listeners) listener();
}

export function locale(): "en" | "zh-CN" {
  return language === "zh" ? "zh-CN" : "en";
}

export const translate: Translate = (key, values) => {
  const text = WORDS[key][language === "zh" ? 1 : 0];
  return values ? text.replace(/\{(\w+)\}/g, (place, name: string) => String(values[name] ?? place)) : text;
};

/** The text of a value of the API, such as `status_QUEUED`; the value itself where the bundle has none. */
export function valueText(prefix: string, value: string): string {
  const key = `${prefix}_${value}`;
  return key in WORDS ? translate(key as Word) : value;
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function useLanguage(): Language {
  return useSyncExternalStore(subscribe, currentLanguage);
}

/** `t`, and a new render when the language changes. Nothing is mounted again, so no form loses its text. */
export function useT(): Translate {
  const current = useLanguage();
  // A new function for each language, so that memoised parts follow it.
  return useMemo<Translate>(() => (current ? (key, values) => translate(key, values) : translate), [current]);
}

// ------------------------------------------------------------------ numbers, times, money

export const number = (value: number): string => value.toLocaleString(locale());

export function points(value: number): string {
  return language === "zh" ? `${number(value)} 积分` : `${number(value)} ${Math.abs(value) === 1 ? "point" : "points"}`;
}

export const yuan = (fen: number): string => `¥${(fen / 100).toLocaleString(locale(), { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

export const dateTime = (iso: string): string => new Date(iso).toLocaleString(locale(), { dateStyle: "medium", timeStyle: "short" });
export const date = (iso: string): string => new Date(iso).toLocaleDateString(locale(), { dateStyle: "medium" });

/** "3 minutes ago", "in 2 days". */
export function relative(iso: string, now: number = Date.now()): string {
  const seconds = (Date.parse(iso) - now) / 1000;
  const format = new Intl.RelativeTimeFormat(locale(), { numeric: "auto" });
  const size = Math.abs(seconds);
  if (size < 45) return format.format(0, "second");
  if (size < 3600) return format.format(Math.round(seconds / 60), "minute");
  if (size < 86_400) return format.format(Math.round(seconds / 3600), "hour");
  return format.format(Math.round(seconds / 86_400), "day");
}

/** A duration for people: "8 s", "2 min 5 s". */
export function duration(seconds: number): string {
  const [s, min, h] = language === "zh" ? ["秒", "分钟", "小时"] : ["s", "min", "h"];
  const whole = Math.max(0, Math.round(seconds));
  if (seconds < 10 && seconds !== whole) return `${seconds.toFixed(1)} ${s}`;
  if (whole < 60) return `${whole} ${s}`;
  if (whole < 3600) return whole % 60 ? `${Math.floor(whole / 60)} ${min} ${whole % 60} ${s}` : `${whole / 60} ${min}`;
  const minutes = Math.floor((whole % 3600) / 60);
  return minutes ? `${Math.floor(whole / 3600)} ${h} ${minutes} ${min}` : `${Math.floor(whole / 3600)} ${h}`;
}
