// Against a real HTTP server that answers as a test says.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, test } from "node:test";
import { AnswerLost, ApiError, Client, contentType, EventParser, InvalidSignature, TextBuilder, verify } from "../src/index.js";
import { Pace } from "../src/core.js";

interface Reply {
  status?: number;
  body?: unknown;
  headers?: Record<string, string>;
  isCut?: boolean;
}
interface Seen {
  method: string;
  target: string;
  headers: IncomingMessage["headers"];
  body: string;
}

let replies: Reply[] = [];
let seen: Seen[] = [];
let url = "";
const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    seen.push({ method: request.method ?? "", target: request.url ?? "", headers: request.headers, body: Buffer.concat(parts).toString() });
    const reply = (replies.length > 1 ? replies.shift() : replies[0]) ?? {};
    const isText = typeof reply.body === "string";
    const content = Buffer.from(isText ? (reply.body as string) : JSON.stringify(reply.body ?? {}));
    response.writeHead(reply.status ?? 200, {
      "content-type": isText ? "text/event-stream" : "application/json",
      "content-length": content.length + (reply.isCut ? 100 : 0),
      ...reply.headers,
    });
    response.write(content, () => (reply.isCut ? response.destroy() : response.end()));
  });
});
const client = (): Client => new Client(url, { apiKey: "ak_1", retryForSeconds: 5 });
const refusal = (status: number, code: string, headers: Record<string, string> = {}): Reply => ({
  status,
  headers,
  body: { code, message: "no", requestId: "r1", details: { field: "count" } },
});
const accepted: Reply = { status: 202, body: { taskId: "task_1", status: "QUEUED" } };
const frames = (...events: [string, string, object][]): string =>
  "retry: 0\n\n" + events.map(([id, name, data]) => `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("");
const TASK = { tool: "cutout", inputs: { product: "inp_1" } };

before(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => {
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`;
  resolve();
})));
after(() => { server.closeAllConnections(); server.close(); });
beforeEach(() => { seen = []; });

test("a refused submission returns under the same key", async () => {
  replies = [refusal(429, "TASK_429_QUEUE_FULL", { "retry-after": "0" }), refusal(503, "X_503_AWAY"), { isCut: true, body: {} }, accepted];
  assert.equal((await client().submitTask(TASK)).taskId, "task_1");
  assert.equal(seen.length, 4);
  assert.equal(new Set(seen.map((one) => one.headers["idempotency-key"])).size, 1);
});

test("an unkeyed change is not repeated", async () => {
  replies = [refusal(503, "X_503_AWAY")];
  await assert.rejects(client().createWebhook({ url: "https://example.com/" }), ApiError);
  replies = [{ isCut: true, body: {} }];
  await assert.rejects(client().createWebhook({ url: "https://example.com/" }), AnswerLost);
  assert.equal(seen.length, 2);
});

test("a wait beyond the budget is an error with its time", async () => {
  replies = [refusal(429, "AUTH_429_THROTTLED", { "retry-after": "900" })];
  await assert.rejects(client().logIn({ login: "a", password: "b" }), { code: "AUTH_429_THROTTLED", retryAfterSeconds: 900, requestId: "r1" });
});

test("callers share one renewal of an expired token", async () => {
  replies = [refusal(401, "AUTH_401_TOKEN_EXPIRED"), { body: { accessToken: "new", refreshToken: "second" } }, { body: { userId: "usr_1" } }];
  const kept: string[] = [];
  const own = new Client(url, { tokens: { access: "old", refresh: "first" }, onTokens: (pair) => kept.push(pair.access) });
  assert.equal((await own.getMe()).userId, "usr_1");
  assert.deepEqual(seen.map((one) => one.target), ["/api/v1/me", "/api/v1/auth/refresh", "/api/v1/me"]);
  assert.equal(seen[2]?.headers.authorization, "Bearer new");
  assert.deepEqual(kept, ["new"]);
});

test("every page of a list is read", async () => {
  replies = [{ body: { items: [1, 2], nextCursor: "a b" } }, { body: { items: [3], nextCursor: null } }];
  const own = client();
  const found: unknown[] = [];
  for await (const one of own.each((page) => own.listTasks({ ...page, status: "FAILED" }))) found.push(one);
  assert.deepEqual(found, [1, 2, 3]);
  assert.deepEqual(seen.map((one) => one.target), ["/api/v1/tasks?limit=100&status=FAILED", "/api/v1/tasks?cursor=a+b&limit=100&status=FAILED"]);
});

test("a broken stream continues without repetition", async () => {
  replies = [
    { body: frames(["1-0", "queued", {}], ["2-0", "started", {}]) + 'id: 3-0\nevent: progress\ndata: {"pro', isCut: true },
    { body: frames(["3-0", "progress", { progress: 5 }]) },
    { body: frames(["4-0", "settled", {}]) },
  ];
  const ids: string[] = [];
  for await (const event of client().taskEvents("task_1")) ids.push(event.id);
  assert.deepEqual(ids, ["1-0", "2-0", "3-0", "4-0"]);
  assert.deepEqual(seen.map((one) => one.headers["last-event-id"]), [undefined, "2-0", "3-0"]);
});

test("wait polls where no stream is free", async () => {
  replies = [refusal(429, "TASK_429_LISTENERS", { "retry-after": "0" }), { body: { status: "PROCESSING" } }, { body: { status: "COMPLETED" } }];
  assert.equal((await client().wait("task_1")).status, "COMPLETED");
});

test("a text arrives in pieces across connections", async () => {
  replies = [
    { status: 202, body: { generationId: "gen_1" } },
    { body: frames(["1-0", "start", {}], ["1-2", "token", { offset: 0, text: "好😀" }]), isCut: true },
    { body: frames(["1-5", "token_batch", { offset: 2, text: "茶" }], ["1-6", "done", {}]) },
  ];
  const pieces: string[] = [];
  for await (const piece of client().write("copywriting", "a pot")) pieces.push(piece);
  assert.deepEqual(pieces, ["好😀", "茶"]);
});

test("a restart drops the text and a gap is an error", () => {
  const builder = new TextBuilder();
  builder.take({ id: "1", name: "token", data: { offset: 0, text: "one" } });
  builder.take({ id: "2", name: "restart", data: { from: 0 } });
  assert.equal(builder.take({ id: "3", name: "token", data: { offset: 0, text: "two" } }), "two");
  assert.equal(builder.text, "two");
  assert.throws(() => builder.take({ id: "4", name: "token", data: { offset: 9, text: "x" } }));
});

test("a frame that arrives in halves is one event", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.feed("id: 7\nda"), []);
  assert.deepEqual(parser.feed('ta: {"a": 1}\n\n'), [{ id: "7", name: "message", data: { a: 1 } }]);
});

test("an upload sends the ticket's headers without credentials", async () => {
  const storage = url.replace("/api/v1", "/bucket/key?signature=1");
  replies = [{ status: 201, body: { inputId: "inp_1", url: storage, method: "PUT", headers: { "content-type": "image/png" } } }, { status: 500 }, {}];
  const png = new Uint8Array(Buffer.from("\x89PNG\r\n\x1a\n0000", "latin1"));
  assert.equal(await client().upload(png), "inp_1");
  assert.deepEqual(JSON.parse(seen[0]?.body ?? ""), { contentType: "image/png", bytes: 12 });
  assert.equal(seen[2]?.headers.authorization, undefined);
  assert.throws(() => contentType(new Uint8Array(Buffer.from("%PDF-1.7"))), TypeError);
});

test("an empty bucket delays requests by its rate", () => {
  const pace = new Pace(() => 0);
  assert.equal(pace.delaySeconds(), 0);
  pace.learn(new Headers({ "ratelimit-limit": "10", "ratelimit-remaining": "0", "ratelimit-reset": "2" }));
  assert.equal(pace.delaySeconds(), 0.2);
});

test("a delivery of the standard's example verifies, an altered one does not", async () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const headers = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "Webhook-Timestamp": "1614265330",
    "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  };
  const body = '{"test": 2432232314}';
  assert.deepEqual(await verify(secret, headers, body, { now: 1614265330 }), { test: 2432232314 });
  await assert.rejects(verify(secret, headers, body.replace("2", "3"), { now: 1614265330 }), InvalidSignature);
  await assert.rejects(verify(secret, headers, body), InvalidSignature);
  const other = createHmac("sha256", "x").update(body).digest("base64");
  await assert.rejects(verify(secret, { ...headers, "Webhook-Signature": `v1,${other}` }, body, { now: 1614265330 }), InvalidSignature);
});

test("parameters are typed for each tool", async () => {
  replies = [{ body: { items: [{ tool: "cutout", group: "edit", inputs: ["product"], optionalInputs: [] }], nextCursor: null } }, accepted];
  const own = client();
  await own.submit("cutout", [], { inputs: { product: "inp_1" }, params: { background: "white" } });
  assert.deepEqual(JSON.parse(seen[1]?.body ?? ""), { tool: "cutout", inputs: { product: "inp_1" }, params: { background: "white" } });
  // @ts-expect-error: cutout has no such parameter
  await own.submit("cutout", [], { inputs: { product: "inp_1" }, params: { preset: "studio" } });
});
