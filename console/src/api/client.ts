import { retryAfterSeconds } from "artiway-client";
import createClient from "openapi-fetch";
import { connection } from "./connection";
import { ApiError, Unreachable } from "./errors";
import type { paths } from "./schema";
import { session } from "./session";
import { locale } from "@/i18n";

/**
 * One client for the whole console. It signs requests, refreshes the tokens once for all tabs, stays within the rate
 * limit of the smallest tier, and repeats requests that a busy server or a lost connection has not answered. A POST is
 * repeated after a lost answer only with an Idempotency-Key, so that nothing is made or paid for twice.
 */
export const api = createClient<paths>({ baseUrl: location.origin, fetch: (request) => send(request) });

/** The data of an answer. Throws ApiError or Unreachable. */
export async function call<T>(answer: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await answer;
  if (!response.ok) throw new ApiError(response.status, error, retryAfter(response));
  return data as T;
}

/** The header that makes a POST safe to repeat. Keep it for all attempts of one act of the user. */
export const once = (key: string = crypto.randomUUID()) => ({ headers: { "Idempotency-Key": key } });

const ATTEMPTS = 7;
const LONGEST_WAIT_S = 15;
const EXPIRY_MARGIN_MS = 20_000;
const REPEATABLE = new Set(["GET", "HEAD", "PUT", "DELETE", "PATCH"]);
const BUSY = new Set([500, 502, 503, 504]);

async function send(request: Request): Promise<Response> {
  const isPublic = new URL(request.url, location.origin).pathname.startsWith("/api/v1/auth/") && !request.url.endsWith("/auth/logout");
  const isRepeatable = REPEATABLE.has(request.method) || request.headers.has("idempotency-key");
  let isRefreshed = false;
  for (let attempt = 1; ; attempt += 1) {
    await turn(request.signal);
    let response: Response;
    try {
      response = await fetch(isPublic ? request.clone() : signed(request, await freshToken()));
    } catch (error) {
      if (request.signal.aborted || error instanceof ApiError) throw error;
      if (connection.state !== "offline" && (!isRepeatable || attempt >= ATTEMPTS)) throw new Unreachable();
      if (!isRepeatable && connection.state === "offline") throw new Unreachable();
      await connection.pause(delay(attempt), request.signal);
      continue;
    }
    if (response.status === 401 && !isPublic && session.tokens && !isRefreshed && (await isTokenFault(response))) {
      isRefreshed = true;
      await refresh(session.tokens.refreshToken);
      continue;
    }
    const wait = await waitFor(response, isRepeatable, attempt);
    if (wait === null) return response;
    await connection.pause(wait, request.signal);
  }
}

function signed(request: Request, token: string | null): Request {
  const copy = request.clone();
  if (token) copy.headers.set("authorization", `Bearer ${token}`);
  // Schedules in words come in the language of the page, which may differ from the browser's.
  copy.headers.set("accept-language", locale());
  return copy;
}

/** Milliseconds until the next attempt, or null where the answer stands. */
async function waitFor(response: Response, isRepeatable: boolean, attempt: number): Promise<number | null> {
  if (attempt >= ATTEMPTS) return null;
  const seconds = retryAfter(response);
  if (response.status === 429) {
    const code = await codeOf(response);
    if (code !== null && code !== "RATE_429_LIMITED") return null; // a full queue or too many attempts: the user decides
    return seconds === null ? delay(attempt) : seconds <= LONGEST_WAIT_S ? seconds * 1000 + Math.random() * 250 : null;
  }
  if (!BUSY.has(response.status) || !isRepeatable) return null;
  if (response.status === 500 && attempt > 2) return null;
  if (seconds !== null) return seconds <= LONGEST_WAIT_S ? Math.max(seconds * 1000, 250) : null;
  return delay(attempt);
}

const delay = (attempt: number) => Math.min(8000, 300 * 2 ** (attempt - 1)) * (0.75 + Math.random() / 2);

const retryAfter = (response: Response): number | null => retryAfterSeconds(response.headers) ?? null;

async function codeOf(response: Response): Promise<string | null> {
  const body: unknown = await response.clone().json().catch(() => null);
  return typeof body === "object" && body !== null && "code" in body ? String(body.code) : null;
}

async function isTokenFault(response: Response): Promise<boolean> {
  const code = await codeOf(response);
  return code === null || !code.startsWith("AUTH_401_BAD_CREDENTIALS");
}

// ------------------------------------------------------------------ tokens

async function freshToken(): Promise<string | null> {
  const tokens = session.tokens;
  if (!tokens) return null;
  if (tokens.expiresAt - Date.now() > EXPIRY_MARGIN_MS) return tokens.accessToken;
  await refresh(tokens.refreshToken);
  return session.tokens?.accessToken ?? null;
}

/** Replace the tokens, unless another request or tab has replaced `used` meanwhile. */
async function refresh(used: string): Promise<void> {
  const replace = async () => {
    const tokens = session.reload();
    if (!tokens || tokens.refreshToken !== used) return;
    const response = await fetch("/api/v1/auth/refresh", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ refreshToken: used }),
    });
    const body: unknown = await response.json().catch(() => null);
    if (response.ok) session.open(body as Parameters<typeof session.open>[0]);
    // Only a 401 ends the session: a busy server or a suspended tenant may accept the token later.
    else if (response.status === 401) session.close("ended");
    else throw new ApiError(response.status, body, retryAfter(response));
  };
  if ("locks" in navigator) await navigator.locks.request("artiway.refresh", replace);
  else await (refreshing ??= replace().finally(() => (refreshing = null)));
}
let refreshing: Promise<void> | null = null;

/** A token for the WebSocket, which cannot answer a 401. */
export const socketToken = freshToken;

// ------------------------------------------------------------------ own limit: below the smallest tier's 5 a second, burst 10

const BURST = 8;
const PER_SECOND = 4;
let budget = BURST;
let filledAt = performance.now();
let queue: Promise<void> = Promise.resolve();

function turn(signal?: AbortSignal): Promise<void> {
  queue = queue.catch(() => undefined).then(async () => {
    if (signal?.aborted) return;
    const now = performance.now();
    budget = Math.min(BURST, budget + ((now - filledAt) / 1000) * PER_SECOND);
    filledAt = now;
    if (budget < 1) await new Promise((resolve) => setTimeout(resolve, ((1 - budget) / PER_SECOND) * 1000));
    budget = Math.max(0, budget - 1);
  });
  return queue;
}
