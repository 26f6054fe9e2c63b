import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import { address, axeInBothLooks, close, DESKTOP, faults, PHONE, request, shop, signedIn, type Shop } from "./harness";
import { english, LONG_MS } from "./operator";
import { isWithin, press, settled, tabTo, type } from "./parts";

const LONG_TEXT = "A set of forty kitchen knives, pots, pans, spoons, plates, cups, bowls, towels. Write one long paragraph for every single item of the set, at least forty paragraphs.";

let who: Shop;
beforeAll(async () => {
  who = await shop({ points: 2000, tier: "vip" });
}, LONG_MS);
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

const textOf = (page: Page) => page.getByTestId("text").innerText();
const idOf = (page: Page) => /text\/(gen_\w+)/.exec(page.url())![1]!;
const stored = (page: Page) => request<{ text: string; status: string; chargedPoints: number }>("GET", `/generations/${idOf(page)}`, { token: who.accessToken });

describe("text", () => {
  it("survives a reload in mid-text, is stopped and copied", { timeout: 240_000 }, async () => {
    const page = await signedIn(who, "/text");
    let before = "";
    // The model decides how long its text is. A short one is over before it is stopped: another is written.
    for (let tries = 0; ; tries += 1) {
      await page.goto(address("/text"));
      await page.getByLabel("About the product").fill(LONG_TEXT);
      await page.getByRole("button", { name: "Write", exact: true }).click();
      await page.waitForURL(/#\/text\/gen_/);
      await expect.poll(async () => (await textOf(page)).length, { timeout: LONG_MS }).toBeGreaterThan(40);
      before = (await textOf(page)).trimEnd();
      await page.reload();
      await page.getByTestId("text").waitFor();
      const tag = page.locator(".page-head .tag");
      // What was there comes back, and the text goes on behind it.
      await expect.poll(async () => (await textOf(page)).length > before.length + 20 || /Completed/.test(await tag.innerText()), { timeout: LONG_MS }).toBe(true);
      expect((await textOf(page)).startsWith(before)).toBe(true);
      const stop = page.getByRole("button", { name: "Stop" });
      if (await stop.isVisible()) await stop.click({ timeout: 5000 }).catch(() => undefined);
      await tag.filter({ hasText: /Stopped|Completed/ }).waitFor({ timeout: LONG_MS });
      if ((await tag.innerText()).includes("Stopped")) break;
      expect(tries).toBeLessThan(4);
    }
    const kept = await stored(page);
    expect(kept.status).toBe("CANCELLED");
    await expect.poll(() => textOf(page), { timeout: LONG_MS }).toBe(kept.text.trimEnd());
    await page.getByRole("button", { name: "Copy the text" }).click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toContain(before);
    await page.getByRole("link", { name: "Write another" }).click();
    await page.getByRole("region", { name: "Your last texts" }).getByText("Stopped").waitFor();
    await page.context().close();
  });

  it("shows developers lane, model and events, and resumes a cut stream", { timeout: 240_000 }, async () => {
    const page = await signedIn(who, "/text");
    await page.getByLabel("About the product").fill(LONG_TEXT);
    // Sellers do not choose a queue; developers simulate both.
    expect(await page.getByText("Free", { exact: true }).count()).toBe(0);
    await page.getByRole("switch", { name: "Developer's view: model and raw events" }).click();
    await page.getByText("Free", { exact: true }).click();
    await page.getByRole("button", { name: "Write", exact: true }).click();
    await page.waitForURL(/#\/text\/gen_/);
    const view = page.locator("section").filter({ has: page.locator(".txt-events") });
    await expect.poll(() => view.locator(".txt-events").innerText(), { timeout: LONG_MS }).toMatch(/ start {2}\{.*\n.* token/);
    await expect.poll(async () => (await textOf(page)).length, { timeout: LONG_MS }).toBeGreaterThan(20);
    expect(await view.locator(".txt-facts").innerText()).toMatch(/Free.*\n.*Provider and model\n\S+ \/ \S+/s);
    await page.getByRole("button", { name: "Cut the connection" }).click();
    await page.getByText(/Cut after event \S+/).waitFor();
    const cut = (await textOf(page)).trimEnd();
    await expect.poll(async () => [...(await stored(page)).text].length, { timeout: LONG_MS }).toBeGreaterThan([...cut].length + 20);
    expect((await textOf(page)).trimEnd()).toBe(cut);
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await expect.poll(async () => (await textOf(page)).length, { timeout: LONG_MS }).toBeGreaterThan(cut.length + 20);
    await request("POST", `/generations/${idOf(page)}/cancel`, { token: who.accessToken }).catch(() => undefined);
    await page.locator(".page-head .tag").filter({ hasText: /Stopped|Completed/ }).waitFor({ timeout: LONG_MS });
    // No letter is twice or missing.
    const whole = (await stored(page)).text.trimEnd();
    await expect.poll(async () => (await textOf(page)).trimEnd(), { timeout: LONG_MS }).toBe(whole);
    await page.context().close();
  });

  it("is written about a picture, and says what was read from it", { timeout: 240_000 }, async () => {
    const page = await signedIn(who, "/text");
    await page.getByRole("button", { name: "Use the sample cup of coffee" }).click();
    await page.locator(".previews img").waitFor();
    await page.getByLabel("About the product").fill("Ceramic, 250 ml.");
    await page.getByRole("button", { name: "Write", exact: true }).click();
    await page.waitForURL(/#\/text\/gen_/);
    await page.getByRole("heading", { name: "Listing from a picture" }).waitFor();
    await page.getByText("Read from the picture:").waitFor({ timeout: 2 * LONG_MS });
    await expect.poll(async () => (await stored(page)).text.length, { timeout: 2 * LONG_MS }).toBeGreaterThan(10);
    await expect.poll(async () => (await textOf(page)).length, { timeout: LONG_MS }).toBeGreaterThan(10);
    await request("POST", `/generations/${idOf(page)}/cancel`, { token: who.accessToken }).catch(() => undefined);
    await page.context().close();
  });

  it("is written and stopped with the keyboard alone", { timeout: 240_000 }, async () => {
    const page = await signedIn(who, "/text");
    await type(page, page.getByLabel("About the product"), LONG_TEXT);
    await press(page, page.getByRole("button", { name: "Write", exact: true }));
    await page.waitForURL(/#\/text\/gen_/);
    await tabTo(page, page.getByRole("button", { name: "Stop" }));
    await page.keyboard.press("Enter");
    await page.locator(".page-head .tag").filter({ hasText: /Stopped|Completed/ }).waitFor({ timeout: LONG_MS });
    await page.context().close();
  });

  it.each([
    ["desktop, English", DESKTOP, "en"],
    ["phone, Chinese", PHONE, "zh"],
  ] as const)("has nothing serious for axe in both looks: %s", { timeout: 120_000 }, async (_, options, language) => {
    const page = await signedIn(who, "/text", options, language);
    await page.locator("textarea").first().waitFor();
    await page.getByRole("switch").click();
    const check = async (path: string) => {
      await settled(page);
      await isWithin(page, path);
      expect(await axeInBothLooks(page)).toEqual([]);
      if (language === "zh") expect(await english(page, ["HTTP"])).toEqual([]);
    };
    await check("/text");
    await page.locator("table a").first().click();
    await page.locator(".txt-events").waitFor();
    await check("a text");
    await page.context().close();
  });
});
