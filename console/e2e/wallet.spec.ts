import { afterAll, afterEach, describe, expect, it } from "vitest";
import type { BrowserContext } from "playwright-core";
import { close, DESKTOP, faults, PHONE, shop, signedIn, stack } from "./harness";
import { hasFocus, press, type } from "./parts";

afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

/** Press a button in the first row of a table of the WeChat Pay simulator: its newest order or refund. */
async function simulate(where: BrowserContext, table: "#trades" | "#refundRows", button: string): Promise<void> {
  const simulator = await where.newPage();
  await simulator.goto(stack.wechatSimUrl);
  await simulator.locator(`${table} tr`).first().getByRole("button", { name: button, exact: true }).click();
  await simulator.getByRole("status").filter({ hasText: "answered" }).waitFor();
  await simulator.close();
}

describe("wallet, with the keyboard alone", () => {
  it("leaves an order, resumes it, closes it; pays one, prints its receipt and refunds a part", async () => {
    const page = await signedIn(await shop({ points: 0 }), "/wallet");
    const dialog = page.getByRole("dialog");
    const buy = page.getByRole("button", { name: /^Buy .* points for/ }).first();
    await press(page, buy);
    await page.locator(".wal-qr svg").first().waitFor();
    await press(page, page.getByRole("link", { name: "Back to the wallet" }));
    await press(page, page.getByRole("link", { name: "Go on paying" }).first());
    await page.locator(".wal-qr svg").first().waitFor();
    await press(page, page.getByRole("button", { name: "Close the order" }));
    await dialog.getByText("Nothing was paid").waitFor();
    await press(page, dialog.getByRole("button", { name: "Close the order" }));
    await page.getByRole("heading", { name: "The order is closed" }).waitFor();
    await hasFocus(page);

    await press(page, page.getByRole("link", { name: "Top up" }).last());
    await press(page, buy);
    await page.locator(".wal-qr svg").first().waitFor();
    await simulate(page.context(), "#trades", "pay");
    await page.getByRole("heading", { name: "Paid, thank you" }).waitFor();
    const bought = Number((await page.getByTestId("balance").textContent())!.replace(/\D/g, ""));
    expect(bought).toBeGreaterThan(0);
    await press(page, page.getByRole("link", { name: "Receipt" }));
    await page.getByText("This is a receipt. It is no fapiao.").waitFor();
    expect(await page.locator(".wal-receipt dd").first().textContent()).toMatch(/\S{6,}/);

    await press(page, page.getByRole("link", { name: "Orders and refunds" }));
    await press(page, page.getByRole("button", { name: /^Refund / }));
    await type(page, dialog.getByLabel("Amount"), "1.00");
    await page.keyboard.press("Enter");
    await dialog.getByText("Please fill this in.").waitFor();
    await type(page, dialog.getByLabel("Reason"), "bought too many");
    await page.keyboard.press("Enter");
    const refunds = page.getByRole("region", { name: "Refunds" });
    await refunds.getByText("bought too many").waitFor();
    await hasFocus(page);
    await simulate(page.context(), "#refundRows", "succeed");
    await refunds.getByText("Refunded", { exact: true }).waitFor();
    // The order shows what was given back, and the points are taken back.
    await page.getByRole("region", { name: "Orders and refunds" }).getByText("− ¥1.00").waitFor();
    await expect.poll(async () => Number((await page.getByTestId("balance").textContent())!.replace(/\D/g, "")), { timeout: 60_000 }).toBeLessThan(bought);
    await page.context().close();
  });

  it("pays through WeChat's own page on a phone, in Chinese and dark", async () => {
    const iphone = { ...PHONE, userAgent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1" };
    const page = await signedIn(await shop({ points: 0 }), "/wallet", iphone, "zh", "dark");
    await page.getByRole("button", { name: /购买/ }).first().click();
    expect(await page.getByRole("link", { name: "打开微信支付" }).getAttribute("href")).toMatch(/^https:\/\/wx\.tenpay\.com\//);
    expect(await page.locator(".wal-qr").count()).toBe(0);
    await simulate(page.context(), "#trades", "pay");
    await page.getByRole("heading", { name: "支付成功" }).waitFor();
    await page.context().close();
  });

  it("offers the way to more points where a task costs too much", async () => {
    const page = await signedIn(await shop({ points: 0 }), "/studio/cutout?sample=bottle", DESKTOP);
    await page.getByText("You need 2 points more.").waitFor();
    await press(page, page.getByRole("button", { name: /^Take \d+ points for free$/ }));
    await page.getByText("You need 2 points more.").waitFor({ state: "hidden" });
    await hasFocus(page);
    await page.context().close();
  });
});
