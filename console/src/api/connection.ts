import { useSyncExternalStore } from "react";

/** Whether requests wait for the network or a busy server at the moment; the shell shows a line then. */
export type Connection = "online" | "offline" | "retrying";

const listeners = new Set<() => void>();
let waiting = 0;
let isOffline = !navigator.onLine;

const changed = () => {
  for (const listener of listeners) listener();
};

window.addEventListener("online", () => {
  isOffline = false;
  changed();
});
window.addEventListener("offline", () => {
  isOffline = true;
  changed();
});

export const connection = {
  get state(): Connection {
    return isOffline ? "offline" : waiting > 0 ? "retrying" : "online";
  },
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  /** Wait, at most `ms` while online; while offline until the browser is online again. */
  async pause(ms: number, signal?: AbortSignal): Promise<void> {
    waiting += 1;
    changed();
    try {
      if (isOffline) await once("online", signal);
      else await sleep(ms, signal);
    } finally {
      waiting -= 1;
      changed();
    }
  },
};

function once(event: string, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(signal?.reason);
    window.addEventListener(event, () => resolve(), { once: true });
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        reject(signal.reason);
      },
      { once: true },
    );
  });
}

export const useConnection = (): Connection => useSyncExternalStore(connection.subscribe, () => connection.state);
