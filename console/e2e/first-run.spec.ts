import { afterAll, afterEach, describe, expect, it } from "vitest";
import { address, close, context, faults, PHONE, shop, signedIn } from "./harness";
import { completed, hasFocus, isShown, linkFor, press, start, tabTo, type } from "./parts";

afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

describe("the first run", () => {
  it("leads from the sign-up over trial points to a picture that is saved, with the keyboard alone", async () => {
    const page = await (await context()).newPage();
    await page.goto(address("/"));
    await press(page, page.getByRole("link", { name: "Create an account" }));
    await press(page, page.getByRole("button", { name: "Create an account" }));
    await page.getByText("Please fill this in.").first().waitFor();
    await type(page, page.getByLabel("Shop or company"), "Tea & Cups");
    await type(page, page.getByLabel("E-mail"), `new-desktop-${Date.now()}@browser.example`);
    await type(page, page.getByLabel("Password", { exact: true }), "correct horse 1");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Welcome, Tea & Cups" }).waitFor();
    await hasFocus(page);
    await press(page, page.getByRole("button", { name: /^Take \d+ points for free$/ }));
    await page.getByRole("status").filter({ hasText: "were added" }).waitFor();
    await hasFocus(page);
    await press(page, page.getByRole("link", { name: "Use the sample bottle" }));
    await page.locator(".previews img").waitFor();
    await page.getByTestId("wait").waitFor();
    await press(page, start(page));
    await page.waitForURL(/#\/tasks\//);
    await completed(page);
    await isShown(page);
    await hasFocus(page);
    // The original is beside the result: the slider lays it over.
    await tabTo(page, page.getByLabel("How much of the original is shown"));
    await page.keyboard.press("ArrowRight");
    await page.locator(".compare-before").waitFor();
    const saved = page.waitForEvent("download");
    await press(page, page.getByRole("button", { name: "Download", exact: true }));
    expect((await saved).suggestedFilename()).toMatch(/cutout.*\.png$/);
    await page.context().close();
  });

  it("works on a phone, in Chinese and dark", async () => {
    const page = await (await context({ ...PHONE, colorScheme: "dark" }, "zh")).newPage();
    await page.goto(address("/"));
    await page.getByRole("link", { name: "注册账号" }).tap();
    await page.getByRole("button", { name: "注册账号" }).tap();
    await page.getByText("请填写此项。").first().waitFor();
    await page.getByLabel("店铺或公司名称").fill("茶与杯");
    await page.getByLabel("邮箱").fill(`new-phone-${Date.now()}@browser.example`);
    await page.getByLabel("密码", { exact: true }).fill("correct horse 1");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "欢迎，茶与杯" }).waitFor();
    expect(await page.evaluate(() => document.documentElement.lang)).toBe("zh-CN");
    await page.getByRole("button", { name: /^免费领取/ }).tap();
    await page.getByRole("status").filter({ hasText: "已到账" }).waitFor();
    await page.getByRole("link", { name: "使用示例：瓶子" }).tap();
    await page.locator(".previews img").waitFor();
    await page.getByTestId("wait").waitFor();
    await start(page).tap();
    await page.waitForURL(/#\/tasks\//);
    await completed(page, /已完成/);
    await isShown(page);
    await page.getByLabel("显示原图的比例").fill("50");
    await page.locator(".compare-before").waitFor();
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "下载", exact: true }).tap();
    expect((await saved).suggestedFilename()).toMatch(/cutout.*\.png$/);
    await page.context().close();
  });
});

describe("links by mail, with the keyboard alone", () => {
  it("reset the password and end the sessions", async () => {
    const who = await shop({ points: 0 });
    const open = await signedIn(who, "/library");
    const page = await (await context()).newPage();
    await page.goto(address("/login"));
    await press(page, page.getByRole("link", { name: "Forgot your password?" }));
    await page.getByRole("heading", { name: "Reset your password" }).waitFor();
    await type(page, page.getByLabel("E-mail or phone"), who.email);
    await page.keyboard.press("Enter");
    await page.getByRole("status").filter({ hasText: who.email }).waitFor();
    const link = await linkFor(who.email);
    await page.goto(address(new URL(link).hash.slice(1)));
    await type(page, page.getByLabel("New password"), "a new password 2");
    await type(page, page.getByLabel("Repeat the password"), "another one");
    await page.keyboard.press("Enter");
    await page.getByText("The two passwords differ.").waitFor();
    await type(page, page.getByLabel("Repeat the password"), "a new password 2");
    await page.keyboard.press("Enter");
    await page.getByText("Your password was changed").waitFor();
    await type(page, page.getByLabel("E-mail or phone"), who.email);
    await type(page, page.getByLabel("Password", { exact: true }), "a new password 2");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Studio" }).waitFor();
    await hasFocus(page);
    await open.reload();
    await open.getByText("Your session has ended").waitFor();
    // The link works once.
    await page.context().close();
    const again = await (await context()).newPage();
    await again.goto(address(new URL(link).hash.slice(1)));
    await type(again, again.getByLabel("New password"), "a third password");
    await type(again, again.getByLabel("Repeat the password"), "a third password");
    await again.keyboard.press("Enter");
    await again.getByRole("alert").filter({ hasText: "This link" }).waitFor();
    await again.context().close();
    await open.context().close();
  });
});
