import { useSyncExternalStore } from "react";

export interface Notice {
  id: string;
  taskId: string;
  tool: string;
  status: string;
  at: number;
}

const KEY = "artiway.notices";
const MOST = 20;
const listeners = new Set<() => void>();
let items: Notice[] = read();

function read(): Notice[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "[]") as Notice[];
  } catch {
    return [];
  }
}

function store(next: Notice[]): void {
  items = next;
  sessionStorage.setItem(KEY, JSON.stringify(next));
  for (const listener of listeners) listener();
}

/** What became ready in this tab while its task's page was not open. */
export const notices = {
  add: (notice: Notice) => store([notice, ...items.filter((one) => one.id !== notice.id)].slice(0, MOST)),
  remove: (taskId: string): void => {
    if (items.some((one) => one.taskId === taskId)) store(items.filter((one) => one.taskId !== taskId));
  },
  clear: () => store([]),
};

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};
export const useNotices = (): Notice[] => useSyncExternalStore(subscribe, () => items);

export const canNotify = (): boolean => "Notification" in window;

/** A notification of the browser, when the user allowed it and looks at another tab. */
export function notifyBrowser(title: string, open: () => void): void {
  if (!canNotify() || Notification.permission !== "granted" || document.visibilityState === "visible") return;
  const shown = new Notification(title, { icon: "/icon.svg", tag: title });
  shown.onclick = () => {
    window.focus();
    open();
    shown.close();
  };
}
