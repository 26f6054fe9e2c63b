// What every call does: the request, errors, retries with Retry-After, the pace of the tenant's rate limit.

export interface Call {
  method: string;
  path: string;
  query?: Record<string, unknown>;
  body?: unknown;
  /** The route takes an Idempotency-Key, so repeating it is safe. */
  isKeyed?: boolean;
  key?: string | undefined;
  headers?: Record<string, string>;
  /** Answer with the open response, for a stream. */
  isStream?: boolean;
  /** Codes that are thrown at once although a retry might help. */
  finalCodes?: readonly string[];
}

/** The API refused a request. `code` is stable (AREA_STATUS_NAME), `message` is for people. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId = "",
    readonly details: Record<string, unknown> = {},
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** No answer: the platform cannot be reached, or the connection broke. */
export class AnswerLost extends Error {
  override name = "AnswerLost";
}

export const pathPart = (value: string): string => encodeURIComponent(value);

export const sleep = (seconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** Longer, never shorter: callers that were refused together do not return together. */
const jittered = (seconds: number): number => seconds * (1 + Math.random() / 4);

/** Before the next attempt, where no answer names a time. */
export const pauseSeconds = (attempt: number): number => jittered(Math.min(5, 0.2 * 2 ** attempt));

export function retryAfterSeconds(headers: Headers): number | undefined {
  const text = headers.get("retry-after");
  if (text === null) return undefined;
  const seconds = Number(text);
  if (!Number.isNaN(seconds)) return Math.max(0, seconds);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000);
}

export const mayRetry = (error: ApiError, isRepeatable: boolean): boolean =>
  error.status === 429 ||
  error.code === "IDEM_409_IN_PROGRESS" ||
  (isRepeatable && [502, 503, 504].includes(error.status));

export const waitSeconds = (error: ApiError, attempt: number): number =>
  error.retryAfterSeconds === undefined ? pauseSeconds(attempt) : jittered(error.retryAfterSeconds);

export async function errorOf(response: Response): Promise<ApiError> {
  const found: unknown = await response.json().catch(() => ({}));
  const body = (typeof found === "object" && found !== null ? found : {}) as Record<string, unknown>;
  return new ApiError(
    response.status,
    String(body["code"] ?? `HTTP_${response.status}`),
    String(body["message"] ?? "the answer was not one of the API's"),
    String(body["requestId"] ?? ""),
    (body["details"] ?? {}) as Record<string, unknown>,
    retryAfterSeconds(response.headers),
  );
}

/** Keeps the caller inside the tenant's rate limit, as the headers of the last answers describe it. */
export class Pace {
  #tokens: number | undefined;
  #rate = 0;
  #capacity = 0;
  #at = 0;

  constructor(private readonly now: () => number = () => performance.now() / 1000) {}

  /** Take one request out of the bucket; how long to wait before it is sent. */
  delaySeconds(): number {
    if (this.#tokens === undefined || this.#rate <= 0) return 0;
    this.#refill();
    this.#tokens -= 1;
    return Math.max(0, -this.#tokens / this.#rate);
  }

  learn(headers: Headers): void {
    const [limit, remaining, reset] = ["limit", "remaining", "reset"].map((name) => {
      const text = headers.get(`ratelimit-${name}`);
      return text === null ? NaN : Number(text);
    }) as [number, number, number];
    if ([limit, remaining, reset].some(Number.isNaN)) return;
    this.#refill();
    // The header is rounded up to whole seconds, so the highest estimate is the nearest.
    if (reset > 0) this.#rate = Math.max(this.#rate, (limit - remaining) / reset);
    this.#capacity = limit;
    this.#tokens = this.#tokens === undefined ? remaining : Math.min(this.#tokens, remaining);
  }

  #refill(): void {
    const now = this.now();
    if (this.#tokens !== undefined) {
      this.#tokens = Math.min(this.#capacity, this.#tokens + (now - this.#at) * this.#rate);
    }
    this.#at = now;
  }
}
