import {
  AnswerLost,
  ApiError,
  type Call,
  errorOf,
  mayRetry,
  Pace,
  pathPart,
  pauseSeconds,
  sleep,
  waitSeconds,
} from "./core.js";
import type * as models from "./models.js";
import { Operations } from "./operations.js";
import { type ArtiwayEvent, EventParser, TASK_ENDS, TEXT_ENDS, TextBuilder } from "./streams.js";

const ENDED: ReadonlySet<string> = new Set(["COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]);
const EXPIRED = ["AUTH_401_TOKEN_EXPIRED", "AUTH_401_TOKEN_INVALID"];
const LISTENERS = "TASK_429_LISTENERS";
const TRANSFER_TRIES = 4;

export interface Tokens {
  access: string;
  refresh: string;
}

export interface Options {
  apiKey?: string;
  tokens?: Tokens;
  /** Called with each new pair, for a program that stores them. */
  onTokens?: (tokens: Tokens) => void;
  /** How long a call is retried. */
  retryForSeconds?: number;
  fetch?: typeof fetch;
}

export interface Submission<Tool extends string = string> {
  inputs?: Record<string, string>;
  params?: Tool extends keyof models.ToolParams ? models.ToolParams[Tool] : Record<string, unknown>;
  count?: number;
  priority?: "HIGH" | "NORMAL" | "LOW";
  webhookUrl?: string;
  idempotencyKey?: string;
  onEvent?: (event: ArtiwayEvent) => void;
}

export type Picture = Blob | Uint8Array<ArrayBuffer>;

/** Every operation of the API as a method, and upload, run, wait, stream, paging on top. */
export class Client extends Operations {
  readonly url: string;
  #options: Options;
  #tokens: Tokens | undefined;
  #renewal: Promise<void> | undefined;
  #pace = new Pace();
  #tools: Map<string, models.ToolBody> | undefined;

  constructor(url: string, options: Options = {}) {
    super();
    this.url = url.replace(/\/$/, "");
    this.#options = options;
    this.#tokens = options.tokens;
  }

  /** All attempts of a call have one idempotency key, so that they are one request to the platform. */
  async call<T>(call: Call): Promise<T> {
    const key = call.isKeyed ? (call.key ?? crypto.randomUUID()) : undefined;
    const isRepeatable = call.isKeyed === true || ["GET", "PUT", "DELETE"].includes(call.method);
    const deadline = performance.now() + this.#retryFor() * 1000;
    let hasRenewed = false;
    for (let attempt = 0; ; attempt += 1) {
      const delay = this.#pace.delaySeconds();
      if (delay > 0) await sleep(delay);
      const access = this.#tokens?.access;
      let wait: number;
      let failure: Error;
      try {
        const response = await this.#send(call, key);
        this.#pace.learn(response.headers);
        if (response.ok) return (call.isStream ? response : await parsed(response)) as T;
        const error = await errorOf(response);
        if (EXPIRED.includes(error.code) && access !== undefined && !hasRenewed) {
          hasRenewed = true;
          await this.#renew(access);
          continue;
        }
        if (!mayRetry(error, isRepeatable) || call.finalCodes?.includes(error.code)) throw error;
        [failure, wait] = [error, waitSeconds(error, attempt)];
      } catch (error) {
        if (error instanceof ApiError || error instanceof AnswerLost) throw error;
        failure = new AnswerLost(`${call.method} ${this.url}${call.path}: ${String(error)}`, { cause: error });
        if (!isRepeatable) throw failure;
        wait = pauseSeconds(attempt);
      }
      if (performance.now() + wait * 1000 > deadline) throw failure;
      await sleep(wait);
    }
  }

  #retryFor(): number {
    return this.#options.retryForSeconds ?? 120;
  }

  #fetch(): typeof fetch {
    return this.#options.fetch ?? fetch;
  }

  #send(call: Call, key: string | undefined): Promise<Response> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined && value !== null) query.set(name, String(value));
    }
    const headers: Record<string, string> = { accept: "application/json", ...call.headers };
    const bearer = this.#options.apiKey ?? this.#tokens?.access;
    if (bearer !== undefined) headers["authorization"] = `Bearer ${bearer}`;
    if (key !== undefined) headers["idempotency-key"] = key;
    let body: string | undefined;
    if (typeof call.body === "string") {
      headers["content-type"] = "application/yaml";
      body = call.body;
    } else if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      body = JSON.stringify(call.body);
    }
    const address = `${this.url}${call.path}${query.size > 0 ? `?${query}` : ""}`;
    return this.#fetch()(address, { method: call.method, headers, ...(body === undefined ? {} : { body }) });
  }

  /** A refresh token works once, so callers share one renewal. */
  #renew(stale: string): Promise<void> {
    if (this.#tokens?.access !== stale) return Promise.resolve();
    this.#renewal ??= (async () => {
      try {
        const other = new Client(this.url, { ...this.#options, tokens: undefined as never });
        const pair = await other.refresh({ refreshToken: this.#tokens?.refresh ?? "" });
        this.#keep({ access: pair.accessToken, refresh: pair.refreshToken });
      } finally {
        this.#renewal = undefined;
      }
    })();
    return this.#renewal;
  }

  #keep(tokens: Tokens): void {
    this.#tokens = tokens;
    this.#options.onTokens?.(tokens);
  }

  /** Log in and use the tokens from now on; they are renewed when they expire. */
  async signIn(login: string, password: string): Promise<models.TokensBody> {
    const found = await this.logIn({ login, password });
    this.#keep({ access: found.accessToken, refresh: found.refreshToken });
    return found;
  }

  /** Every item of a list, page by page: `for await (const task of client.each((page) => client.listTasks(page)))`. */
  async *each<T>(
    listing: (page: { cursor?: string; limit: number }) => Promise<{ items: T[]; nextCursor: string | null }>,
    limit = 100,
  ): AsyncGenerator<T> {
    let cursor: string | null = null;
    do {
      const page: { items: T[]; nextCursor: string | null } = await listing(cursor === null ? { limit } : { cursor, limit });
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor !== null);
  }

  /** The catalogue by name, read once. */
  async tools(): Promise<Map<string, models.ToolBody>> {
    if (this.#tools === undefined) {
      const found = new Map<string, models.ToolBody>();
      for await (const tool of this.each((page) => this.listTools(page))) found.set(tool.tool, tool);
      this.#tools = found;
    }
    return this.#tools;
  }

  /** Upload a picture and return its input id. */
  async upload(picture: Picture): Promise<string> {
    const content = picture instanceof Blob ? new Uint8Array(await picture.arrayBuffer()) : picture;
    const ticket = await this.createUpload({ contentType: contentType(content), bytes: content.byteLength });
    await this.#transfer(ticket.url, { method: ticket.method, headers: ticket.headers, body: content });
    return ticket.inputId;
  }

  /** A request to the storage: the address itself is the permission, so no credentials are sent. */
  async #transfer(url: string, init: RequestInit = {}): Promise<Response> {
    for (let attempt = 0; attempt < TRANSFER_TRIES; attempt += 1) {
      const response = await this.#fetch()(url, init).catch(() => undefined);
      if (response?.ok) return response;
      if (response !== undefined && response.status < 500) {
        throw new ApiError(response.status, `STORAGE_${response.status}`, "the storage refused");
      }
      await sleep(pauseSeconds(attempt));
    }
    throw new AnswerLost(`${url.split("?")[0]}: the storage does not answer`);
  }

  /** Upload pictures as the tool's inputs in their order, and submit. */
  async submit<Tool extends string>(
    tool: Tool,
    pictures: Picture[],
    options: Submission<Tool> = {},
  ): Promise<models.AcceptedBody> {
    const { inputs, idempotencyKey, onEvent: _, ...more } = options;
    const given: Record<string, string> = { ...inputs };
    const names = inputNames(await this.tools(), tool, pictures.length);
    for (const [number, picture] of pictures.entries()) given[names[number] ?? ""] = await this.upload(picture);
    const params = (more.params ?? {}) as Record<string, unknown>;
    return this.submitTask({ tool, inputs: given, ...more, params }, idempotencyKey);
  }

  /** Upload, submit and wait for the end; a task that fails is returned, not thrown. */
  async run<Tool extends string>(
    tool: Tool,
    pictures: Picture[],
    options: Submission<Tool> = {},
  ): Promise<models.TaskViewBody> {
    return this.wait((await this.submit(tool, pictures, options)).taskId, options);
  }

  /** Follow a task to its end by its events; by polling where no stream is free. */
  async wait(taskId: string, { onEvent }: Pick<Submission, "onEvent"> = {}): Promise<models.TaskViewBody> {
    try {
      for await (const event of this.taskEvents(taskId)) onEvent?.(event);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== LISTENERS) throw error;
    }
    for (let seconds = 0.5; ; seconds = Math.min(3, seconds * 1.5)) {
      const view = await this.getTask(taskId);
      if (ENDED.has(view.status)) return view;
      await sleep(seconds);
    }
  }

  /** The results of a task as files. An address that has expired is requested again. */
  async download(task: models.TaskViewBody): Promise<{ name: string; contentType: string; content: Uint8Array }[]> {
    const files = [];
    for (const [number, result] of task.results.entries()) {
      const response = await this.#transfer(result.url).catch(async (error: unknown) => {
        if (!(error instanceof ApiError) || ![401, 403].includes(error.status)) throw error;
        const fresh = (await this.getTask(task.taskId)).results[number];
        return this.#transfer(fresh?.url ?? result.url);
      });
      const name = `${result.name}.${result.contentType === "image/jpeg" ? "jpg" : result.contentType.split("/")[1]}`;
      files.push({ name, contentType: result.contentType, content: new Uint8Array(await response.arrayBuffer()) });
    }
    return files;
  }

  /** The events of a task up to its settlement, across broken connections, each once. */
  taskEvents(taskId: string, lastEventId?: string): AsyncGenerator<ArtiwayEvent> {
    return this.#events(`/tasks/${pathPart(taskId)}/events`, TASK_ENDS, lastEventId);
  }

  /** The events of a text up to its end, across broken connections, each once. */
  generationEvents(generationId: string, lastEventId?: string): AsyncGenerator<ArtiwayEvent> {
    return this.#events(`/generations/${pathPart(generationId)}/events`, TEXT_ENDS, lastEventId);
  }

  async *#events(path: string, ends: ReadonlySet<string>, lastEventId?: string): AsyncGenerator<ArtiwayEvent> {
    const parser = new EventParser(lastEventId);
    let lastPieceAt = performance.now();
    for (;;) {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (parser.lastId !== undefined) headers["last-event-id"] = parser.lastId;
      const response = await this.call<Response>({ method: "GET", path, headers, isStream: true, finalCodes: [LISTENERS] });
      const reader = (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(new TextDecoderStream()).getReader();
      try {
        for (;;) {
          const piece = await reader.read();
          if (piece.done) break;
          lastPieceAt = performance.now();
          for (const event of parser.feed(piece.value)) {
            yield event;
            if (ends.has(event.name)) return;
          }
        }
      } catch (error) {
        if (performance.now() - lastPieceAt > this.#retryFor() * 1000) throw new AnswerLost(String(error));
      } finally {
        await reader.cancel().catch(() => undefined);
      }
      parser.reconnect();
      await sleep(parser.retrySeconds);
    }
  }

  /** A text as it is written. After an event `restart` what follows replaces what came before. */
  async *write(
    service: string,
    text: string,
    options: Partial<models.GenerationRequestBody> & Pick<Submission, "onEvent"> = {},
  ): AsyncGenerator<string> {
    const { onEvent, ...more } = options;
    const accepted = await this.submitGeneration({ service, input: { text }, ...more });
    const builder = new TextBuilder();
    for await (const event of this.generationEvents(accepted.generationId)) {
      onEvent?.(event);
      const added = builder.take(event);
      if (added !== "") yield added;
      if (event.name === "error") throw new ApiError(500, String(event.data["code"]), String(event.data["message"]));
    }
  }
}

async function parsed(response: Response): Promise<unknown> {
  if (response.status === 204) return undefined;
  const isJson = response.headers.get("content-type")?.includes("json");
  return isJson ? response.json() : response.text();
}

/** From the first bytes, whatever the file is called. */
export function contentType(picture: Uint8Array): "image/png" | "image/jpeg" | "image/webp" {
  const head = String.fromCharCode(...picture.slice(0, 12));
  if (head.startsWith("\x89PNG")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("RIFF") && head.slice(8) === "WEBP") return "image/webp";
  throw new TypeError("not a PNG, JPEG or WebP picture");
}

function inputNames(tools: Map<string, models.ToolBody>, name: string, count: number): string[] {
  const tool = tools.get(name);
  if (tool === undefined) throw new TypeError(`there is no tool ${name}; there are ${[...tools.keys()].join(", ")}`);
  if (tool.group === "batch") {
    const stem = (tool.inputs[0] ?? "").replace(/1$/, "");
    return Array.from({ length: count }, (_, number) => `${stem}${number + 1}`);
  }
  return [...tool.inputs, ...tool.optionalInputs].slice(0, count);
}
