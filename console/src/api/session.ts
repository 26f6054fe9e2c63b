import { useSyncExternalStore } from "react";

/** The tokens of the signed-in user, shared by all tabs through local storage. */
export interface Tokens {
  accessToken: string;
  refreshToken: string;
  /** Milliseconds of this machine's clock. */
  expiresAt: number;
  userId: string;
}

/** Why there is no session: the user signed out, or the server ended it. */
export type Ending = "signed-out" | "ended" | null;

const KEY = "artiway.session";
const listeners = new Set<() => void>();
let current: Tokens | null = read();
let ending: Ending = null;

function read(): Tokens | null {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "null") as Tokens | null;
  } catch {
    return null;
  }
}

function changed(): void {
  for (const listener of listeners) listener();
}

export const session = {
  get tokens(): Tokens | null {
    return current;
  },
  get ending(): Ending {
    return ending;
  },
  /** Read the storage again: another tab may have refreshed the tokens. */
  reload(): Tokens | null {
    current = read();
    return current;
  },
  open(answer: { accessToken: string; refreshToken: string; expiresIn: number; userId: string }): void {
    current = {
      accessToken: answer.accessToken,
      refreshToken: answer.refreshToken,
      expiresAt: Date.now() + answer.expiresIn * 1000,
      userId: answer.userId,
    };
    ending = null;
    localStorage.setItem(KEY, JSON.stringify(current));
    changed();
  },
  close(reason: Exclude<Ending, null>): void {
    current = null;
    ending = reason;
    localStorage.removeItem(KEY);
    changed();
  },
  /** The page that shows the reason of the end has been read. */
  acknowledge(): void {
    ending = null;
  },
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

window.addEventListener("storage", (event) => {
  if (event.key !== KEY && event.key !== null) return;
  const before = current;
  session.reload();
  if (before && !current) ending = "signed-out";
  changed();
});

/** The user id of the session, or null. A refreshed token causes no new render. */
export function useSessionUser(): string | null {
  return useSyncExternalStore(session.subscribe, () => current?.userId ?? null);
}
