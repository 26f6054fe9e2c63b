import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import chromium from "@sparticuz/chromium";
import { chromium as playwright, type Browser, type BrowserContext, type BrowserContextOptions, type Page } from "playwright-core";

/** One browser and the running stack that the tests share. ARTIWAY_STACK names its stack.json. */
export interface Stack {
  apiUrl: string;
  consoleUrl: string;
  wechatSimUrl: string;
  admin: { login: string; password: string };
}

export const stack = JSON.parse(readFileSync(process.env.ARTIWAY_STACK ?? "../.artiway/stack.json", "utf8")) as Stack;
export const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
export const DESKTOP: BrowserContextOptions = { viewport: { width: 1440, height: 900 } };

let browser: Promise<Browser> | null = null;

/**
 * Chromium of the package, unpacked once for this checkout. The package unpacks into the temporary folder that all
 * processes of a machine share, and takes a file there for whole while another process still writes it.
 */
async function unpacked(): Promise<string> {
  const home = join(import.meta.dirname, "../node_modules/.cache/chromium");
  const file = join(home, "chromium");
  if (existsSync(file)) return file;
  mkdirSync(join(home, ".."), { recursive: true });
  const place = mkdtempSync(`${home}-`);
  const before = process.env.TMPDIR;
  process.env.TMPDIR = place;
  try {
    await chromium.executablePath();
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
  try {
    renameSync(place, home);
  } catch (error) {
    rmSync(place, { recursive: true });
    if (!existsSync(file)) throw error;
  }
  return file;
}

/** One browser for all files, with web security on: the package ships an argument that turns it off. It ends with the process. */
export function open(): Promise<Browser> {
  browser ??= (async () => {
    const args = chromium.args.filter((one) => !/disable-web-security|single-process|no-zygote|disable-site-isolation|allow-running-insecure/.test(one));
    return playwright.launch({ executablePath: await unpacked(), args, headless: true });
  })();
  return browser;
}

/** After a file: close what a failed test left open. */
export async function close(): Promise<void> {
  await Promise.all(((await browser)?.contexts() ?? []).map((one) => one.close()));
}

/** For waits inside a page. Far more than a quiet machine needs, so that a busy one passes. */
const LONGEST_MS = 60_000;

/** Faults that a page reported; every test ends with none. */
export const faults: string[] = [];

export async function context(options: BrowserContextOptions = DESKTOP, language: "en" | "zh" = "en"): Promise<BrowserContext> {
  const made = await (await open()).newContext({ locale: language === "zh" ? "zh-CN" : "en-GB", reducedMotion: "reduce", acceptDownloads: true, permissions: ["clipboard-read", "clipboard-write"], ...options });
  made.setDefaultTimeout(LONGEST_MS);
  await made.addInitScript(watchFocus, new URL(stack.consoleUrl).origin);
  made.on("page", (page) => {
    page.on("pageerror", (error) => faults.push(`${page.url()}: ${error.message}`));
    page.on("console", (message) => message.type() === "error" && !/Failed to load resource|WebSocket|net::ERR/.test(message.text()) && faults.push(`${page.url()}: ${message.text()}`));
  });
  return made;
}

/**
 * Runs in each page and reports a redraw that takes the focus away: the element that had it is gone or closed, and for a
 * second nothing has it. Pages of operations, jobs and text are not watched.
 */
function watchFocus(origin: string): void {
  if (location.origin !== origin) return;
  let had: Element | null = null;
  let looks = 0;
  document.addEventListener("focusin", ({ target }) => (had = target as Element));
  setInterval(() => {
    const isGone = had !== null && (!had.isConnected || had.matches(":disabled") || had.getClientRects().length === 0);
    looks = isGone && document.activeElement === document.body && !/^#\/(ops|jobs|text)/.test(location.hash) ? looks + 1 : 0;
    if (looks === 10) throw new Error(`the focus was lost with ${had!.outerHTML.slice(0, 200)}`);
  }, 100);
}

export const address = (path: string): string => `${stack.consoleUrl.replace(/\/$/, "")}/#${path}`;

// ------------------------------------------------------------------ accounts, by API

export interface Shop {
  userId: string;
  tenantId: string;
  email: string;
  password: string;
  accessToken: string;
  refreshToken: string;
  expiresIn: number;
}

export async function request<T>(method: string, path: string, { token, body, key }: { token?: string; body?: unknown; key?: string } = {}): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    const answer = await fetch(stack.apiUrl + path, {
      method,
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...(token ? { authorization: `Bearer ${token}` } : {}), ...(key ? { "idempotency-key": key } : {}) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (answer.status === 429 && attempt < 20) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      continue;
    }
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text ? JSON.parse(text) : undefined) as T;
  }
}

let administrator: { token: Promise<string>; until: number } | null = null;

/** A token of the platform's administrator, renewed before it expires: all files share this module. */
export function adminToken(): Promise<string> {
  if (!administrator || administrator.until < Date.now())
    administrator = { token: request<{ accessToken: string }>("POST", "/auth/login", { body: stack.admin }).then((answer) => answer.accessToken), until: Date.now() + 5 * 60_000 };
  return administrator.token;
}

let shops = 0;

/** A new shop with points, of the free tier unless told. */
export async function shop({ points = 500, tier }: { points?: number; tier?: string } = {}): Promise<Shop> {
  const email = `shop-${Date.now()}-${(shops += 1)}@browser.example`;
  const password = "correct horse 1";
  const made = await request<Shop>("POST", "/auth/register", { body: { tenantName: `Shop ${shops}`, email, password } });
  const token = await adminToken();
  if (points) await request("POST", "/points/grants", { token, body: { userId: made.userId, amount: points, reason: "browser test" }, key: crypto.randomUUID() });
  if (!tier) return { ...made, email, password };
  await request("PATCH", `/tenants/${made.tenantId}`, { token, body: { tier } });
  return { ...made, ...(await request<Shop>("POST", "/auth/refresh", { body: { refreshToken: made.refreshToken } })), email, password };
}

/** The platform's administrator, signed in anew: each page refreshes tokens of its own. */
export async function operator(): Promise<Shop> {
  const { login, password } = stack.admin;
  return { ...(await request<Shop>("POST", "/auth/login", { body: { login, password } })), email: login, password };
}

/** A new browser for a person who is signed in already, as after a reload. */
export async function contextOf(who: Shop, options: BrowserContextOptions = DESKTOP, language: "en" | "zh" = "en", theme: "light" | "dark" = "light"): Promise<BrowserContext> {
  const made = await context({ ...options, colorScheme: theme }, language);
  const tokens = { accessToken: who.accessToken, refreshToken: who.refreshToken, userId: who.userId, expiresAt: Date.now() + who.expiresIn * 1000 };
  // Once: a page that signs out stays signed out.
  await made.addInitScript(([text]) => {
    if (!location.protocol.startsWith("http") || localStorage.getItem("test.signed-in")) return;
    localStorage.setItem("test.signed-in", "yes");
    localStorage.setItem("artiway.session", text!);
  }, [JSON.stringify(tokens)]);
  return made;
}

export async function signedIn(who: Shop, path: string, ...mode: [options?: BrowserContextOptions, language?: "en" | "zh", theme?: "light" | "dark"]): Promise<Page> {
  const page = await (await contextOf(who, ...mode)).newPage();
  await page.goto(address(path));
  await page.locator("main h1, main h2").first().waitFor();
  return page;
}

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The serious and critical findings of axe, as text. */
export async function axe(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: (options: object) => Promise<{ violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[] }> } };
    return (await axe.run({ resultTypes: ["violations"] })).violations;
  });
  return found.filter((one) => one.impact === "serious" || one.impact === "critical").map((one) => `${one.id} (${one.impact}): ${one.nodes.map((node) => `${node.html.slice(0, 160)} ${node.failureSummary.split("\n")[1] ?? ""}`).join(" | ")}`);
}

/** The same in both looks, without opening the page again: it follows the device. */
export async function axeInBothLooks(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const look of ["dark", "light"] as const) {
    await page.emulateMedia({ colorScheme: look });
    await page.locator(`html[data-theme=${look}]`).waitFor({ state: "attached" });
    // Colours that change have no contrast of their own.
    await page.waitForFunction(() => !document.getAnimations().some((one) => one instanceof CSSTransition));
    found.push(...(await axe(page)).map((one) => `${look}: ${one}`));
  }
  return found;
}
