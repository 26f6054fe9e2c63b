import { theme as antd, type ThemeConfig } from "antd";
import { useSyncExternalStore } from "react";

export type Appearance = "light" | "dark" | "auto";

const KEY = "artiway.theme";
const device = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let chosen: Appearance = (localStorage.getItem(KEY) as Appearance | null) ?? "auto";

const isDark = () => (chosen === "auto" ? device.matches : chosen === "dark");

function apply(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  document.documentElement.style.colorScheme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}
device.addEventListener("change", apply);
apply();

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function setAppearance(next: Appearance): void {
  chosen = next;
  localStorage.setItem(KEY, next);
  apply();
}

export const useAppearance = (): Appearance => useSyncExternalStore(subscribe, () => chosen);
export const useDark = (): boolean => useSyncExternalStore(subscribe, isDark);

const FONT = '"Inter", system-ui, -apple-system, "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans", sans-serif';

/** Every pair of text and ground has a contrast of at least 4.5. */
const LIGHT: ThemeConfig = {
  algorithm: antd.defaultAlgorithm,
  token: {
    colorPrimary: "#0f766e",
    colorLink: "#0f6b64",
    colorInfo: "#0f766e",
    colorSuccess: "#15803d",
    colorWarning: "#b45309",
    colorError: "#b91c1c",
    colorTextBase: "#14201e",
    colorTextSecondary: "#4b5a56",
    colorTextTertiary: "#5a6864",
    colorTextDescription: "#5a6864",
    colorTextPlaceholder: "#5f6d69",
    colorTextDisabled: "#5f6d69",
    colorBgLayout: "#f5f7f6",
    colorBorder: "#c9d3d0",
    colorBorderSecondary: "#e3e9e7",
  },
};

const DARK: ThemeConfig = {
  algorithm: antd.darkAlgorithm,
  token: {
    colorPrimary: "#2dd4bf",
    colorLink: "#5eead4",
    colorInfo: "#2dd4bf",
    colorSuccess: "#4ade80",
    colorWarning: "#fbbf24",
    colorError: "#f87171",
    colorTextBase: "#eef4f2",
    colorTextSecondary: "#b3c1bd",
    colorTextTertiary: "#a3b2ae",
    colorTextDescription: "#a3b2ae",
    colorTextPlaceholder: "#93a39f",
    colorTextDisabled: "#93a39f",
    colorBgBase: "#0e1514",
    colorBgLayout: "#0b1110",
    colorBgContainer: "#141d1b",
    colorBgElevated: "#1a2523",
    colorBorder: "#33433f",
    colorBorderSecondary: "#24312e",
    colorTextLightSolid: "#06201d",
  },
  components: { Button: { primaryColor: "#06201d", dangerColor: "#2a0b0b" }, Tooltip: { colorTextLightSolid: "#eef4f2" } },
};

export function themeOf(dark: boolean): ThemeConfig {
  const base = dark ? DARK : LIGHT;
  return {
    ...base,
    cssVar: { key: dark ? "dark" : "light" },
    hashed: false,
    token: { ...base.token, fontFamily: FONT, fontSize: 15, borderRadius: 10, controlHeight: 38, wireframe: false },
    components: {
      ...base.components,
      Button: { ...base.components?.Button, fontWeight: 500, primaryShadow: "none", defaultShadow: "none", dangerShadow: "none" },
      Form: { verticalLabelPadding: "0 0 4px", itemMarginBottom: 18 },
      Table: { headerBg: "transparent", headerSplitColor: "transparent" },
    },
  };
}
