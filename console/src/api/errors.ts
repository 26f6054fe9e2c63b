import type { Word } from "@/i18n/words";

/** An answer of the API that is not a success. `code` is stable; `message` is the server's English text. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly requestId: string | null;
  readonly fields: readonly FieldFault[];
  readonly details: Readonly<Record<string, unknown>>;
  /** Seconds, from Retry-After. */
  readonly retryAfter: number | null;

  constructor(status: number, body: unknown, retryAfter: number | null = null) {
    const shape = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
    super(typeof shape.message === "string" ? shape.message : `HTTP ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.code = typeof shape.code === "string" ? shape.code : `HTTP_${status}`;
    this.requestId = typeof shape.requestId === "string" ? shape.requestId : null;
    this.details = (shape.details ?? {}) as Record<string, unknown>;
    this.fields = Array.isArray(this.details.fields) ? (this.details.fields as FieldFault[]) : [];
    this.retryAfter = retryAfter;
  }
}

export interface FieldFault {
  field: string;
  reason: string;
}

/** No answer after all attempts. */
export class Unreachable extends Error {
  constructor() {
    super("the server cannot be reached");
    this.name = "Unreachable";
  }
}

/** A fault that the console finds by itself; the word says why. */
export class OwnFault extends Error {
  readonly word: Word;
  readonly values: Record<string, string | number>;
  constructor(word: Word, values: Record<string, string | number> = {}) {
    super(word);
    this.name = "OwnFault";
    this.word = word;
    this.values = values;
  }
}
