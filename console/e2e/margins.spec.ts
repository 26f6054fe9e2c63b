import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { address, axeInBothLooks, close, DESKTOP, faults, operator, PHONE, request, shop, signedIn, type Shop } from "./harness";
import { choose, LONG_MS, until } from "./operator";
import { isWithin } from "./parts";

let who: Shop;
let charged = 0;
beforeAll(async () => {
  who = await shop({ points: 2000, tier: "vip" });
  const { generationId } = await request<{ generationId: string }>("POST", "/generations", { token: who.accessToken, key: crypto.randomUUID(), body: { service: "copywriting", input: { text: "a red teapot" }, maxTokens: 12 } });
  const ended = await until(() => request<{ status: string; chargedPoints: number }>("GET", `/generations/${generationId}`, { token: who.accessToken }), (one) => one.status === "COMPLETED");
  charged = ended.chargedPoints;
}, 3 * LONG_MS);
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

describe("margins", () => {
  it("shows what a tenant's texts cost and earned, in each group", { timeout: 120_000 }, async () => {
    const page = await signedIn(await operator(), "/ops");
    await page.getByRole("link", { name: "Margins" }).click();
    await page.getByRole("heading", { name: "Margins" }).waitFor();
    await page.goto(address(`/ops/margins?tenantId=${who.tenantId}`));
    const rows = page.locator("tbody tr");
    await expect.poll(() => rows.count(), { timeout: LONG_MS }).toBe(1);
    expect(await rows.first().innerText()).toContain(new Date().toISOString().slice(0, 10));
    for (const [group, text] of [["Service", "copywriting"], ["Person", who.email], ["Model", "/"]] as const) {
      await choose(page, "By", group);
      await rows.filter({ hasText: text }).first().waitFor({ timeout: LONG_MS });
      expect(await rows.count()).toBe(1);
    }
    await page.getByText(new RegExp(`^${charged} points? charged`)).waitFor();
    await page.reload();
    await rows.first().waitFor();
    expect(new URL(page.url()).hash).toContain("groupBy=model");
    await page.context().close();
  });

  it.each([
    ["desktop, English", DESKTOP, "en"],
    ["phone, Chinese", PHONE, "zh"],
  ] as const)("has nothing serious for axe in both looks: %s", { timeout: 120_000 }, async (_, options, language) => {
    const page = await signedIn(await operator(), "/ops/margins", options, language);
    await page.locator("tbody tr").first().waitFor({ timeout: LONG_MS });
    await isWithin(page, "/margins");
    expect(await axeInBothLooks(page)).toEqual([]);
    await page.context().close();
  });
});
