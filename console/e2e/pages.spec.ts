import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import { address, axe, close, context, DESKTOP, faults, PHONE, shop, signedIn, type Shop } from "./harness";
import { requests } from "./parts";

const PUBLIC = ["/login", "/register", "/forgot", "/reset?token=rst_x"];
const PRIVATE = ["/", "/studio/cutout?sample=bottle", "/studio/erase?sample=mug", "/studio/batch_cutout", "/library", "/wallet", "/team", "/developers", "/account"];
const MODES = [
  ["desktop, English, light", DESKTOP, "en", "light"],
  ["phone, Chinese, dark", PHONE, "zh", "dark"],
  ["desktop, Chinese, dark", DESKTOP, "zh", "dark"],
  ["phone, English, light", PHONE, "en", "light"],
] as const;

let who: Shop;
beforeAll(async () => {
  who = await shop({ points: 100, tier: "vip" });
});
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

const settled = async (page: Page) => {
  await page.locator("main h1").first().waitFor();
  await page.waitForLoadState("networkidle");
};

describe.each(MODES)("axe: %s", (_, options, language, theme) => {
  it("finds nothing serious on any page", { timeout: 120_000 }, async () => {
    const found: Record<string, string[]> = {};
    const stranger = await (await context({ ...options, colorScheme: theme }, language)).newPage();
    for (const path of PUBLIC) {
      await stranger.goto(address(path));
      await settled(stranger);
      found[path] = await axe(stranger);
    }
    await stranger.context().close();
    const page = await signedIn(who, "/", options, language, theme);
    for (const path of PRIVATE) {
      await page.goto(address(path));
      await settled(page);
      if (path.includes("sample")) await page.locator(".previews img, .mask-area img").first().waitFor();
      // No page is wider than the screen.
      expect([path, await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth + 1)]).toEqual([path, true]);
      found[path] = await axe(page);
    }
    await page.context().close();
    expect(Object.entries(found).filter(([, all]) => all.length)).toEqual([]);
  });
});

describe("Chinese", () => {
  it("has no English words on the pages of a shop", async () => {
    const page = await signedIn(who, "/", DESKTOP, "zh");
    for (const path of ["/", "/studio/cutout", "/library"]) {
      await page.goto(address(path));
      await settled(page);
      const text = await page.locator("main").innerText();
      expect([path, text.match(/[A-Za-z]{4,}/g)?.filter((word) => !["Artiway", "Ctrl", "WebP", "JPEG", "Shop"].includes(word)) ?? []]).toEqual([path, []]);
    }
    await page.context().close();
  });
});

describe("measures", () => {
  it("sends at most four API requests for a page and few bytes for the sign-in", async () => {
    const figures: Record<string, unknown> = {};
    for (const path of ["/login", "/", "/studio/cutout", "/library", "/wallet", "/team", "/developers", "/account"]) {
      const page = path === "/login" ? await (await context()).newPage() : await (async () => (await signedIn(who, "/login")).context().newPage())();
      const seen = requests(page);
      let bytes = 0;
      const session = await page.context().newCDPSession(page);
      await session.send("Network.enable");
      session.on("Network.loadingFinished", ({ encodedDataLength }) => (bytes += encodedDataLength));
      await page.goto(address(path));
      await settled(page);
      const times = await page.evaluate(() => ({ firstPaintMs: Math.round(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1), interactiveMs: Math.round(performance.now()) }));
      figures[path] = { requests: seen.length, kilobytes: Math.round(bytes / 1000), ...times };
      expect([path, seen.length <= 4 ? "" : seen]).toEqual([path, ""]);
      if (path === "/login") expect(bytes).toBeLessThan(400_000);
      await page.context().close();
    }
    process.stdout.write(`measures ${JSON.stringify(figures)}\n`);
  });
});
