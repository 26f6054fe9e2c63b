import { Switch } from "antd";
import { useSyncExternalStore } from "react";
import { useT } from "@/i18n";

const KEY = "artiway.events";
const listeners = new Set<() => void>();
const read = () => localStorage.getItem(KEY) === "yes";
const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Whether this person wants to see lanes, models and events. It is kept in the browser. */
export function useDeveloperView(): [isOn: boolean, turn: (isOn: boolean) => void] {
  const isOn = useSyncExternalStore(subscribe, read);
  return [
    isOn,
    (next) => {
      localStorage.setItem(KEY, next ? "yes" : "no");
      for (const listener of listeners) listener();
    },
  ];
}

export function DeveloperSwitch() {
  const t = useT();
  const [isOn, turn] = useDeveloperView();
  return (
    <span className="row" style={{ flexWrap: "nowrap" }}>
      <Switch aria-label={t("txtEvents")} checked={isOn} onChange={turn} />
      <span aria-hidden="true">{t("txtEvents")}</span>
    </span>
  );
}
