import { EventParser } from "artiway-client";
import { socketToken } from "@/api/client";

/** An event of a text, as it came. */
export interface Frame {
  id: string | null;
  event: string;
  data: Record<string, unknown>;
}

export interface Writing {
  text: string;
  /** Unicode characters of `text`; offsets of the stream count these. */
  characters: number;
  lastId: string | null;
  provider: string | null;
  modelId: string | null;
  queueId: string | null;
  end: "done" | "error" | "cancelled" | null;
  error: string | null;
  points: number | null;
  frames: Frame[];
}

export const BLANK: Writing = { text: "", characters: 0, lastId: null, provider: null, modelId: null, queueId: null, end: null, error: null, points: null, frames: [] };
const MOST_FRAMES = 500;

/** A text with an event applied. What was read before is not written twice: offsets say where a piece belongs. */
export function written(before: Writing, frame: Frame): Writing {
  const { event, data } = frame;
  const next: Writing = { ...before, lastId: frame.id ?? before.lastId, frames: [...before.frames, frame].slice(-MOST_FRAMES) };
  if (event === "start") return { ...next, provider: String(data.provider ?? ""), modelId: String(data.modelId ?? ""), queueId: String(data.queueId ?? "") };
  if (event === "restart") return { ...next, text: "", characters: 0 };
  if (event === "token" || event === "token_batch") {
    const piece = [...String(data.text ?? "")];
    const offset = typeof data.offset === "number" ? data.offset : before.characters;
    const skipped = before.characters - offset;
    if (skipped < 0) return { ...next, text: before.text + piece.join(""), characters: offset + piece.length };
    const fresh = piece.slice(skipped);
    return { ...next, text: before.text + fresh.join(""), characters: before.characters + fresh.length };
  }
  if (event === "done" || event === "error" || event === "cancelled")
    return { ...next, end: event, points: typeof data.points === "number" ? data.points : null, error: event === "error" ? String(data.code ?? data.message ?? "") : null };
  return next;
}

/** Reads the stream until the text has ended. A lost connection goes on at the last event. */
export async function follow(generationId: string, start: Writing, show: (writing: Writing) => void, signal: AbortSignal): Promise<void> {
  let writing = start;
  let failures = 0;
  while (!writing.end && !signal.aborted) {
    let waitMs = 200;
    try {
      const token = await socketToken();
      const headers: Record<string, string> = { authorization: `Bearer ${token}`, accept: "text/event-stream", ...(writing.lastId ? { "last-event-id": writing.lastId } : {}) };
      const answer = await fetch(`/api/v1/generations/${generationId}/events`, { headers, signal });
      if (answer.status === 404 || answer.status === 403) return;
      if (!answer.ok || !answer.body) throw new Error(`HTTP ${answer.status}`);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new EventParser(writing.lastId ?? undefined);
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = parser.feed(value);
        for (const { id, name, data } of events) writing = written(writing, { id: id || null, event: name, data });
        if (events.length) show(writing);
        waitMs = Math.min(parser.retrySeconds * 1000, 5000);
        failures = 0;
      }
    } catch (error) {
      if (signal.aborted) return;
      void error;
      failures += 1;
      waitMs = Math.min(5000, 300 * 2 ** failures);
    }
    if (!writing.end) await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
}
