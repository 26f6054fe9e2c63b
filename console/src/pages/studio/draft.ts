import { useCallback, useSyncExternalStore } from "react";
import type { Picture } from "./picture";
import type { Shape } from "./shapes";

/** The form of one tool. It lives outside the pages, so that no change of page, language or session loses it. */
export interface Draft {
  pictures: Picture[];
  extra: Record<string, Picture>;
  shapes: Shape[];
  params: Record<string, unknown>;
  count: number | null;
  /** The idempotency key of the next submission, new after each task. */
  key: string;
}

const fresh = (): Draft => ({ pictures: [], extra: {}, shapes: [], params: {}, count: null, key: crypto.randomUUID() });
const drafts = new Map<string, Draft>();
const listeners = new Set<() => void>();

export function draftOf(tool: string): Draft {
  let draft = drafts.get(tool);
  if (!draft) {
    draft = fresh();
    drafts.set(tool, draft);
  }
  return draft;
}

export function changeDraft(tool: string, change: (draft: Draft) => Partial<Draft>): void {
  const draft = draftOf(tool);
  drafts.set(tool, { ...draft, ...change(draft) });
  for (const listener of listeners) listener();
}

export const clearDraft = (tool: string): void => changeDraft(tool, fresh);

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function useDraft(tool: string): [Draft, (change: (draft: Draft) => Partial<Draft>) => void] {
  const draft = useSyncExternalStore(subscribe, () => draftOf(tool));
  const change = useCallback((how: (draft: Draft) => Partial<Draft>) => changeDraft(tool, how), [tool]);
  return [draft, change];
}

/** The first picture of a task while this page is open, for before/after where the platform does not have it. */
const originals = new Map<string, string>();
export const rememberOriginal = (taskId: string, url: string | undefined): void => void (url && originals.set(taskId, url));
export const originalOf = (taskId: string): string | undefined => originals.get(taskId);
