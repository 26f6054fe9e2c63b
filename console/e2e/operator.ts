import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { deflateSync, crc32 } from "node:zlib";
import type { Locator, Page } from "playwright-core";
import { WORDS, type Word } from "../src/i18n/words";
import { address, adminToken, request, type Shop } from "./harness";
import { settled } from "./parts";

/** What a busy machine may need for one step of a journey. */
export const LONG_MS = 60_000;

/** The only private port that jobs of the test's stack may call. */
export const RECEIVER_PORT = Number(process.env.ARTIWAY_RECEIVER_PORT ?? 8861);
export const RECEIVER = `http://127.0.0.1:${RECEIVER_PORT}`;

/** A tenant's server: `/fail` answers 500, and so does `/flip` until it is repaired. */
export class Receiver {
  isRepaired = false;
  calls: string[] = [];
  private server: Server | null = null;

  start(): Promise<void> {
    this.server = createServer((call, answer) => {
      this.calls.push(call.url ?? "");
      call.resume();
      call.on("end", () => {
        const isBroken = call.url === "/fail" || (call.url === "/flip" && !this.isRepaired);
        answer.writeHead(isBroken ? 500 : 200, { "content-type": "text/plain", connection: "close" });
        answer.end(isBroken ? "broken" : "thank you");
      });
    });
    return new Promise((resolve, reject) => this.server!.once("error", reject).listen(RECEIVER_PORT, "127.0.0.1", resolve));
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.server?.closeAllConnections();
      this.server?.close(() => resolve());
    });
  }
}

/** A plain white picture, on which no product can be found. */
export function blank(): Buffer {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const [size, check] = [Buffer.alloc(4), Buffer.alloc(4)];
    size.writeUInt32BE(data.length);
    check.writeUInt32BE(crc32(body));
    return Buffer.concat([size, body, check]);
  };
  const [side, header] = [256, Buffer.alloc(13)];
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.set([8, 0, 0, 0, 0], 8);
  const rows = Buffer.alloc(side * (side + 1), 255);
  for (let row = 0; row < side; row += 1) rows[row * (side + 1)] = 0;
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", header), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

export const bottle = () => readFileSync(join(import.meta.dirname, "../public/samples/bottle.jpg"));

/** Submits a cut-out of a picture and returns the task's id. */
export async function cutout({ accessToken: token }: Shop, picture: Buffer, contentType: string): Promise<string> {
  const ticket = await request<{ inputId: string; url: string; method: string; headers: Record<string, string> }>("POST", "/uploads", { token, body: { contentType, bytes: picture.length } });
  const sent = await fetch(ticket.url, { method: ticket.method, headers: ticket.headers, body: new Uint8Array(picture) });
  if (!sent.ok) throw new Error(`upload: ${sent.status}`);
  const { taskId } = await request<{ taskId: string }>("POST", "/tasks", { token, body: { tool: "cutout", inputs: { product: ticket.inputId } }, key: crypto.randomUUID() });
  return taskId;
}

/** Reads until the answer satisfies the test. A busy server may fail to answer in between. */
export async function until<T>(read: () => Promise<T>, isMet: (found: T) => boolean, limitMs = 2 * LONG_MS): Promise<T> {
  const end = Date.now() + limitMs;
  for (let last: unknown = null; ; ) {
    try {
      const found = await read();
      if (isMet(found)) return found;
      last = found;
    } catch (error) {
      last = String(error);
    }
    if (Date.now() > end) throw new Error(`not met: ${JSON.stringify(last).slice(0, 600)}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

export const taskEnded = ({ accessToken: token }: Shop, taskId: string) => until(() => request<{ status: string }>("GET", `/tasks/${taskId}`, { token }), (task) => ["COMPLETED", "FAILED", "PARTIAL", "CANCELLED"].includes(task.status));

export async function asAdmin<T>(method: string, path: string, body?: unknown): Promise<T> {
  return request<T>(method, path, { token: await adminToken(), body });
}

/** Runs a job of the shop once, at a far time and now, and returns the ids of job and run. */
export async function runJob({ accessToken: token }: Shop, name: string, path: string, maxAttempts = 1): Promise<{ jobId: string; runId: string }> {
  const schedule = { type: "CRON", expr: "0 3 1 1 *", timezone: "UTC" };
  const body = { name, schedule, task: { type: "HTTP", url: RECEIVER + path }, retryPolicy: { maxAttempts, baseDelayMs: 1000 } };
  const { jobId } = await request<{ jobId: string }>("POST", "/jobs", { token, body });
  const { runId } = await request<{ runId: string }>("POST", `/jobs/${jobId}/trigger`, { token });
  return { jobId, runId };
}

/** Chooses an option of a list by its visible name, with the keyboard, which needs no animation to end. */
export async function choose(page: Page, label: string | RegExp, option: string): Promise<void> {
  const box = page.getByRole("combobox", { name: label });
  await box.focus();
  await box.press("ArrowDown");
  await page.locator(".ant-select-dropdown:visible .ant-select-item-option", { hasText: new RegExp(`^${option}$`) }).first().click();
}

/**
 * Opens a page and waits until its own parts are there. A page that is loaded later leaves the one before it in place, so a
 * title alone does not say which page is shown.
 */
export async function visit(page: Page, path: string, mark: Locator): Promise<void> {
  await page.goto(address(path));
  await mark.first().waitFor({ state: "attached" });
  await settled(page);
}

/** A word of the console in the language of a page. */
export const word = (key: Word, language: "en" | "zh"): string => WORDS[key][language === "zh" ? 1 : 0];

/** Names of people's own things and of products, which no page translates. */
const NAMES = /^(Artiway|Shop|English|Jain|JSON|Redis|GPU|PostgreSQL|WebP|JPEG|Ctrl|Cron|https|HTTP|POST|HEAD|PATCH|DELETE|[A-Z]{2,5})$/;

/**
 * English words on a Chinese page. What is written as code, in another language or as somebody's own name is left out,
 * as a browser's translation would leave it out.
 */
export async function english(page: Page, own: string[] = []): Promise<string[]> {
  const texts = await page.evaluate(() => {
    const found: string[] = [];
    for (const part of document.querySelectorAll("main, .ops-nav")) {
      const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) if (!walker.currentNode.parentElement!.closest("code, pre, [lang], [translate=no]")) found.push(walker.currentNode.textContent ?? "");
      for (const field of part.querySelectorAll<HTMLInputElement>("input[placeholder], textarea[placeholder]")) found.push(field.placeholder);
    }
    return found;
  });
  const known = new Set(own.flatMap((name) => name.split(/\W+/)));
  // Keys of the API, such as vip_short, stand in code only.
  const keys = texts.flatMap((text) => (text.match(/\b[a-z]+(?:_[a-z]+)+\b/g) ?? []).map((key) => `key: ${key}`));
  return keys.concat([...new Set(texts)].flatMap((text) => (text.match(/(?<![\w.\-@/#…])[A-Za-z]{3,}(?![\w\-@/…]|\.\w)/g) ?? []).filter((word) => !NAMES.test(word) && !known.has(word)).map((word) => `English: ${word} in “${text.trim().slice(0, 80)}”`)));
}
