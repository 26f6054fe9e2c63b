import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { address, axe, close, DESKTOP, faults, operator, PHONE, request, shop, signedIn, stack, type Shop } from "./harness";

let who: Shop;
beforeAll(async () => {
  who = await shop({ points: 300, tier: "vip" });
});
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

describe("wallet", () => {
  it("makes an order, leaves it, resumes it and closes it", async () => {
    const page = await signedIn(who, "/wallet");
    await page.getByRole("button", { name: /^Buy .* points for/ }).first().click();
    await page.waitForURL(/#\/wallet\/pay\//);
    await page.locator(".wal-qr svg").first().waitFor();
    await page.getByRole("link", { name: "Back to the wallet" }).click();
    await page.getByRole("link", { name: "Go on paying" }).first().click();
    await page.locator(".wal-qr svg").first().waitFor();
    await page.getByRole("button", { name: "Close the order" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Close the order" }).click();
    await page.getByRole("heading", { name: "The order is closed" }).waitFor();
    await page.context().close();
  });
});

describe("developers", () => {
  it("makes a key that works, shows it once and revokes it", async () => {
    const page = await signedIn(who, "/developers");
    await page.getByRole("button", { name: "New API key" }).click();
    await page.getByLabel("Name", { exact: true }).fill("server");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const key = (await page.getByTestId("secret").textContent())!.trim();
    expect(await request<{ items: unknown[] }>("GET", "/tasks", { token: key })).toMatchObject({ items: [] });
    await page.reload();
    await page.getByRole("button", { name: "Revoke server" }).click();
    expect(await page.getByTestId("secret").count()).toBe(0);
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No keys yet").waitFor();
    expect((await fetch(`${stack.apiUrl}/tasks`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(401);
    await page.context().close();
  });
});

describe("operations", () => {
  it("pauses a lane for a reason, resumes it, sets and unsets its parallelism", { timeout: 120_000 }, async () => {
    const page = await signedIn(await operator(), "/ops/lanes");
    await page.getByRole("button", { name: "Pause VIP, long tasks" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByRole("button", { name: "Pause" }).isDisabled()).toBe(true);
    await dialog.getByLabel("Reason").fill("driver update");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Resume VIP, long tasks" }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByText(/Lane VIP, long tasks is paused.*driver update/).waitFor();
    await page.getByRole("navigation", { name: "Operations" }).getByRole("link", { name: "Lanes and models" }).click();
    await page.getByRole("button", { name: "Resume VIP, long tasks" }).click();
    await page.getByRole("button", { name: "Pause VIP, long tasks" }).waitFor();
    await page.getByRole("button", { name: "Change Parallelism VIP, long tasks: No limit" }).click();
    await page.getByRole("spinbutton", { name: "Parallelism VIP, long tasks" }).fill("3");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Change Parallelism VIP, long tasks: 3" }).click();
    await page.getByRole("button", { name: "No limit", exact: true }).click();
    await page.getByRole("button", { name: "Change Parallelism VIP, long tasks: No limit" }).waitFor();
    await page.context().close();
  });

  it.each([
    ["desktop, English, light", DESKTOP, "en", "light"],
    ["phone, Chinese, dark", PHONE, "zh", "dark"],
  ] as const)("has nothing serious for axe: %s", { timeout: 150_000 }, async (_, options, language, theme) => {
    const page = await signedIn(await operator(), "/ops", options, language, theme);
    const found: Record<string, string[]> = {};
    for (const path of ["", "/charts", "/tasks", "/lanes", "/shares", "/dead-letters", "/checks", "/tenants", "/audit", "/settings"].map((name) => `/ops${name}`).concat("/text", "/jobs/new", "/developers/webhooks", "/developers/samples", "/wallet/usage", "/wallet/ledger")) {
      await page.goto(address(path));
      await page.locator("main h1").first().waitFor();
      await page.waitForLoadState("networkidle");
      expect([path, await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth + 1)]).toEqual([path, true]);
      found[path] = await axe(page);
    }
    await page.context().close();
    expect(Object.entries(found).filter(([, all]) => all.length)).toEqual([]);
  });
});
