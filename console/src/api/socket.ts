import { useEffect } from "react";
import { socketToken } from "./client";
import { session } from "./session";

export interface TaskEvent {
  type: string;
  taskId: string;
  node?: string;
  progress?: number;
  status?: string;
  at?: string;
  [more: string]: unknown;
}

type Listener = (event: TaskEvent) => void;
const PING_MS = 5 * 60_000;
const LONGEST_DELAY_MS = 20_000;

const listeners = new Set<Listener>();
const resyncs = new Set<() => void>();
let socket: WebSocket | null = null;
let users = 0;
let attempt = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let ping: ReturnType<typeof setInterval> | undefined;
let wasOpen = false;

async function connect(): Promise<void> {
  clearTimeout(timer);
  if (socket || users === 0 || !session.tokens || !navigator.onLine) return;
  let token: string | null;
  try {
    token = await socketToken();
  } catch {
    return later();
  }
  if (!token || socket || users === 0) return;
  const made = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws?token=${encodeURIComponent(token)}`);
  socket = made;
  made.addEventListener("open", () => {
    attempt = 0;
    // Events were missed between two connections: pages read their state once.
    if (wasOpen) for (const resync of resyncs) resync();
    wasOpen = true;
    clearInterval(ping);
    ping = setInterval(() => made.readyState === WebSocket.OPEN && made.send('{"action":"ping"}'), PING_MS);
  });
  made.addEventListener("message", ({ data }) => {
    if (socket !== made) return;
    const event = parse(String(data));
    if (event) for (const listener of listeners) listener(event);
  });
  made.addEventListener("close", () => {
    if (socket !== made) return;
    socket = null;
    clearInterval(ping);
    later();
  });
}

function parse(text: string): TaskEvent | null {
  try {
    const event = JSON.parse(text) as TaskEvent;
    return typeof event.type === "string" && typeof event.taskId === "string" ? event : null;
  } catch {
    return null;
  }
}

function later(): void {
  clearTimeout(timer);
  if (users === 0) return;
  attempt += 1;
  timer = setTimeout(() => void connect(), Math.min(LONGEST_DELAY_MS, 500 * 2 ** attempt) * (0.5 + Math.random() / 2));
}

function disconnect(): void {
  clearTimeout(timer);
  clearInterval(ping);
  const old = socket;
  socket = null;
  wasOpen = false;
  if (old?.readyState === WebSocket.CONNECTING) old.addEventListener("open", () => old.close());
  else old?.close();
}

/** A socket from before an outage may look open for minutes. */
function drop(): void {
  const old = socket;
  socket = null;
  clearInterval(ping);
  old?.close();
}

window.addEventListener("offline", drop);
window.addEventListener("online", () => {
  attempt = 0;
  drop();
  for (const resync of resyncs) resync();
  void connect();
});

/** Keep the one socket open while a component is mounted (the shell does). */
export function useSocket(): void {
  useEffect(() => {
    users += 1;
    void connect();
    return () => {
      users -= 1;
      if (users === 0) disconnect();
    };
  }, []);
}

/** `resync` runs after a gap: the server does not send transient events again. */
export function useTaskEvents(listener: Listener, resync?: () => void): void {
  useEffect(() => {
    listeners.add(listener);
    if (resync) resyncs.add(resync);
    return () => {
      listeners.delete(listener);
      if (resync) resyncs.delete(resync);
    };
  }, [listener, resync]);
}
