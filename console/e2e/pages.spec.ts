import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import { address, axeInBothLooks, close, context, contextOf, DESKTOP, faults, PHONE, request, shop, signedIn, type Shop } from "./harness";
import { furnish, type Furnished } from "./furnish";
import { isWithin, requests, settled, watch } from "./parts";

const PUBLIC = ["/login", "/register", "/forgot", "/reset?token=rst_x", "/invitation?token=inv_x"];
/** English is longer, so it is the one for the phone. */
const LAYOUTS = [
  ["desktop", "zh", DESKTOP],
  ["phone", "en", PHONE],
] as const;
/** Chinese pages have these English words only: names, units and code. What people wrote is not translated either. */
const KNOWN = new Set(["Artiway", "Ctrl", "WebP", "JPEG", "Shop", "English", "curl", "Python", "TypeScript", "Node", "HTTP", "HTTPS", "JSON", "POST", "Webhook", "curlPython", "server", "picture", "many", "browser", "test"]);
/** Buttons that open a dialog, in both languages. */
const DIALOGS: [string, RegExp][] = [
  ["/team", /^(Invite a person|邀请成员)$/],
  ["/team", /^(Transfer points|转积分)/],
  ["/developers", /^(New API key|新建 API 密钥)$/],
  ["/wallet/orders", /^(Refund|退款)/],
];

let who: Shop;
let has: Furnished;
let tools: string[];
beforeAll(async () => {
  who = await shop({ points: 100, tier: "vip" });
  has = await furnish(who);
  tools = (await request<{ items: { tool: string }[] }>("GET", "/tools?limit=100", { token: who.accessToken })).items.map((one) => one.tool);
});
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

/** Every page of a shop. Pages of text, jobs and operations have files of their own. */
const pages = (): string[] => [
  "/",
  "/studio/cutout?sample=bottle",
  "/studio/erase?sample=mug",
  "/studio/no-such-tool",
  "/library",
  "/library?status=CANCELLED",
  `/tasks/${has.done}`,
  `/tasks/${has.failed}`,
  "/wallet",
  "/wallet/orders",
  "/wallet/usage",
  "/wallet/ledger",
  `/wallet/pay/${has.open}`,
  `/wallet/receipts/${has.paid}`,
  "/team",
  "/developers",
  "/developers/webhooks",
  "/developers/samples",
  "/account/logins",
  "/ops",
  "/no-such-page",
];

async function opened(page: Page, path: string): Promise<void> {
  await page.goto(address(path));
  if (path.includes("sample=")) await page.locator(".previews img, .mask-area img").first().waitFor();
  await settled(page);
}

describe.each(LAYOUTS)("%s, %s, light and dark", (layout, language, options) => {
  it("has nothing serious for axe on any page, no page wider than the screen, and no English on a Chinese one", async () => {
    const found: string[] = [];
    const look = async (page: Page, name: string) => {
      await isWithin(page, name);
      found.push(...(await axeInBothLooks(page)).map((one) => `${layout}, ${language}, ${name}: ${one}`));
    };
    const stranger = await (await context(options, language)).newPage();
    for (const path of PUBLIC) {
      await opened(stranger, path);
      await look(stranger, path);
    }
    await stranger.context().close();
    const page = await signedIn(who, "/", options, language);
    // Each tool once: their forms differ by their options only.
    for (const path of [...pages(), ...tools.filter((_, at) => at % 2 === (layout === "phone" ? 1 : 0)).map((tool) => `/studio/${tool}`)]) {
      await opened(page, path);
      if (path === "/team") {
        await page.getByRole("button", { name: /^(Show the roles|查看角色)$/ }).click();
        await settled(page);
      }
      await look(page, path);
      if (language === "zh") found.push(...(await english(page)).map((word) => `${path}: ${word} is English`));
    }
    for (const [path, button] of DIALOGS) {
      await opened(page, path);
      await page.getByRole("button", { name: button }).first().click();
      await page.getByRole("dialog").getByRole("button").first().waitFor();
      await look(page, `${path} ${button.source}`);
      await page.keyboard.press("Escape");
    }
    await page.context().close();
    expect(found).toEqual([]);
  });
});

async function english(page: Page): Promise<string[]> {
  const text = await page.locator("main").evaluate((main) => {
    const copy = main.cloneNode(true) as HTMLElement;
    for (const one of copy.querySelectorAll("code, pre, input, textarea, .previews")) one.remove();
    return copy.textContent;
  });
  const words = text.replaceAll(/\S+@\S+|(task|ord)_\w+|[0-9a-f]{16,}/g, "").match(/[A-Za-z]{4,}/g) ?? [];
  return words.filter((word) => !KNOWN.has(word));
}

describe("measures", () => {
  it("sends at most four API requests for a page and at most 400 KB for the sign-in", async () => {
    const figures: Record<string, unknown> = {};
    const ready: Record<string, string> = { "/login": "button[type=submit]", "/": ".tool-card", "/studio/cutout": ".drop button" };
    // The page of an open order asks every two seconds whether it was paid.
    for (const path of ["/login", "/studio/cutout", ...pages().filter((one) => !/sample=|no-such|ops|pay/.test(one))]) {
      const page = await (path === "/login" ? await context() : await contextOf(who)).newPage();
      const seen = requests(page);
      watch(page);
      let bytes = 0;
      const session = await page.context().newCDPSession(page);
      await session.send("Network.enable");
      session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
      await page.addInitScript(timing, ready[path] ?? "main h1");
      await page.goto(address(path));
      await settled(page);
      const times = await page.evaluate(() => (window as unknown as { times: () => object }).times());
      figures[path.replace(/_\w{20,}/, "…")] = { requests: seen.length, kilobytes: Math.round(bytes / 1000), ...times };
      expect([path, seen.length <= 4 ? "" : seen]).toEqual([path, ""]);
      if (path === "/login") expect(bytes).toBeLessThan(400_000);
      await page.context().close();
    }
    process.stdout.write(`measures ${JSON.stringify(figures)}\n`);
  });
});

/**
 * Runs in the page. It is interactive when what the page is for is drawn and the main thread is free: after the last
 * task of more than 50 ms.
 */
function timing(selector: string): void {
  let [seen, busy] = [0, 0];
  const look = () => (document.querySelector(selector) ? (seen = performance.now()) : requestAnimationFrame(look));
  look();
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) busy = Math.max(busy, startTime + duration);
  }).observe({ type: "longtask", buffered: true });
  (window as unknown as { times: () => object }).times = () => {
    const painted = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1;
    return { firstPaintMs: Math.round(painted), interactiveMs: Math.round(Math.max(painted, seen, busy)) };
  };
}
