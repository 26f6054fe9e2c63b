import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { api, call, once } from "./client";
import { ApiError, Unreachable } from "./errors";
import { session } from "./session";

type Answer = { status: number; body?: unknown; headers?: Record<string, string> } | "lost";

/** A server that gives these answers in turn and records the requests. */
function serve(...answers: Answer[]) {
  const seen: { method: string; path: string; key: string | null; token: string | null }[] = [];
  vi.stubGlobal("fetch", async (input: Request | string, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(new URL(input, location.origin), init);
    seen.push({ method: request.method, path: new URL(request.url).pathname, key: request.headers.get("idempotency-key"), token: request.headers.get("authorization") });
    const answer = answers.shift();
    if (!answer || answer === "lost") throw new TypeError("Failed to fetch");
    return new Response(answer.body === undefined ? null : JSON.stringify(answer.body), { status: answer.status, headers: { "content-type": "application/json", ...answer.headers } });
  });
  return seen;
}

const OPEN = { accessToken: "a1", refreshToken: "r1", expiresIn: 900, userId: "usr_1" };
/** The outcome of a request on the test's clock: it goes on until the request has ended. */
async function settled<T>(request: Promise<T>): Promise<T> {
  let isDone = false;
  const watched = request.finally(() => (isDone = true));
  watched.catch(() => undefined);
  for (let steps = 0; !isDone && steps < 2000; steps += 1) await vi.advanceTimersByTimeAsync(50);
  return watched;
}

const read = () => call(api.GET("/api/v1/me"));
const me = () => settled(read());
const limited: Answer = { status: 429, body: { code: "RATE_429_LIMITED", message: "slow down" }, headers: { "retry-after": "0" } };

describe("client", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] });
    session.open(OPEN);
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("waits for the limit and repeats the request", async () => {
    const seen = serve(limited, limited, { status: 200, body: { userId: "usr_1" } });
    expect(await me()).toEqual({ userId: "usr_1" });
    expect(seen).toHaveLength(3);
  });

  it("repeats a paid request with the same key after a lost answer", async () => {
    const seen = serve("lost", { status: 503 }, { status: 202, body: { taskId: "task_1" } });
    await settled(call(api.POST("/api/v1/tasks", { body: { tool: "cutout", inputs: {}, priority: "NORMAL" }, ...once("key-1") })));
    expect(seen.map((one) => one.key)).toEqual(["key-1", "key-1", "key-1"]);
  });

  it("does not repeat a request that could act twice", async () => {
    const seen = serve("lost");
    await expect(settled(call(api.POST("/api/v1/api-keys", { body: { name: "n", permissions: [] } as never })))).rejects.toBeInstanceOf(Unreachable);
    expect(seen).toHaveLength(1);
  });

  it("leaves a full queue to the user", async () => {
    const seen = serve({ status: 429, body: { code: "TASK_429_QUEUE_FULL", message: "full" }, headers: { "retry-after": "1" } });
    await expect(settled(call(api.POST("/api/v1/tasks", { body: { tool: "cutout", inputs: {}, priority: "NORMAL" }, ...once() })))).rejects.toMatchObject({ code: "TASK_429_QUEUE_FULL" });
    expect(seen).toHaveLength(1);
  });

  it("refreshes once and sends the request again", async () => {
    const seen = serve({ status: 401, body: { code: "AUTH_401_TOKEN_EXPIRED" } }, { status: 200, body: { ...OPEN, accessToken: "a2", refreshToken: "r2" } }, { status: 200, body: {} });
    await me();
    expect(seen.map((one) => one.path)).toEqual(["/api/v1/me", "/api/v1/auth/refresh", "/api/v1/me"]);
    expect(seen[2]!.token).toBe("Bearer a2");
  });

  it("takes the tokens that another tab has refreshed", async () => {
    const other = JSON.stringify({ ...OPEN, accessToken: "a9", refreshToken: "r9", expiresAt: Date.now() + 900_000 });
    const seen = serve({ status: 401, body: { code: "AUTH_401_TOKEN_EXPIRED" } }, { status: 200, body: {} });
    localStorage.setItem("artiway.session", other);
    await me();
    expect(seen.map((one) => [one.path, one.token])).toEqual([
      ["/api/v1/me", "Bearer a1"],
      ["/api/v1/me", "Bearer a9"],
    ]);
  });

  it("ends the session when the refresh is refused", async () => {
    serve({ status: 401, body: { code: "AUTH_401_TOKEN_EXPIRED" } }, { status: 401, body: { code: "AUTH_401_REFRESH_REUSED" } }, { status: 401, body: { code: "AUTH_401_TOKEN_INVALID" } });
    await expect(me()).rejects.toBeInstanceOf(ApiError);
    expect([session.tokens, session.ending]).toEqual([null, "ended"]);
  });

  it("keeps the session when the server is busy during a refresh", async () => {
    serve({ status: 401, body: { code: "AUTH_401_TOKEN_EXPIRED" } }, { status: 503, body: { code: "PLATFORM_503_DATABASE" } });
    await expect(me()).rejects.toMatchObject({ status: 503 });
    expect(session.tokens).not.toBeNull();
  });

  it("does not take a wrong password for an ended session", async () => {
    serve({ status: 401, body: { code: "AUTH_401_BAD_CREDENTIALS", message: "no" } });
    await expect(settled(call(api.POST("/api/v1/auth/login", { body: { login: "a", password: "b" } })))).rejects.toMatchObject({ code: "AUTH_401_BAD_CREDENTIALS" });
    expect(session.tokens).not.toBeNull();
  });

  it("stays below five requests a second", async () => {
    const times: number[] = [];
    vi.stubGlobal("fetch", async () => {
      times.push(Date.now());
      return new Response("{}", { status: 200, headers: { "content-type": "application/json" } });
    });
    await settled(Promise.all(Array.from({ length: 24 }, read)));
    const most = Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 1000).length));
    expect(most).toBeLessThanOrEqual(13); // a burst of 8, then 4 a second; the smallest tier allows 10 and 5
  });
});
