import { afterAll, afterEach, describe, expect, it } from "vitest";
import { address, close, context, faults, PHONE, shop, signedIn } from "./harness";
import { completed, isShown, linkFor, submit } from "./parts";

afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

describe("the first run", () => {
  it.each(["desktop", "phone"])("leads from the sign-up over trial points to a picture that is saved: %s", async (device) => {
    const page = await (await context(device === "phone" ? PHONE : undefined)).newPage();
    await page.goto(address("/"));
    await page.getByRole("link", { name: "Create an account" }).click();
    await page.getByRole("button", { name: "Create an account" }).click();
    await page.getByText("Please fill this in.").first().waitFor();
    await page.getByLabel("Shop or company").fill("Tea & Cups");
    await page.getByLabel("E-mail").fill(`new-${device}-${Date.now()}@browser.example`);
    await page.getByLabel("Password", { exact: true }).fill("correct horse 1");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Welcome, Tea & Cups" }).waitFor();
    await page.getByRole("button", { name: /^Take \d+ points for free$/ }).click();
    await page.getByRole("status").filter({ hasText: "were added" }).waitFor();
    await page.getByRole("link", { name: "Use the sample bottle" }).click();
    await page.locator(".previews img").waitFor();
    await submit(page);
    await completed(page);
    await isShown(page);
    // The original is beside the result: half of the slider shows half of it.
    await page.getByLabel("How much of the original is shown").fill("50");
    await page.locator(".compare-before").waitFor();
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download", exact: true }).click();
    expect((await saved).suggestedFilename()).toMatch(/cutout.*\.png$/);
    await page.context().close();
  });
});

describe("links by mail", () => {
  it("reset the password and end the sessions", async () => {
    const who = await shop({ points: 0 });
    const open = await signedIn(who, "/library");
    const page = await (await context()).newPage();
    await page.goto(address("/forgot"));
    await page.getByLabel("E-mail or phone").fill(who.email);
    await page.keyboard.press("Enter");
    await page.getByRole("status").filter({ hasText: who.email }).waitFor();
    const link = await linkFor(who.email);
    await page.goto(address(new URL(link).hash.slice(1)));
    await page.getByLabel("New password").fill("a new password 2");
    await page.getByLabel("Repeat the password").fill("another one");
    await page.keyboard.press("Enter");
    await page.getByText("The two passwords differ.").waitFor();
    await page.getByLabel("Repeat the password").fill("a new password 2");
    await page.keyboard.press("Enter");
    await page.getByText("Your password was changed").waitFor();
    await page.getByLabel("E-mail or phone").fill(who.email);
    await page.getByLabel("Password", { exact: true }).fill("a new password 2");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Studio" }).waitFor();
    await open.reload();
    await open.getByText("Your session has ended").waitFor();
    // The link works once.
    await page.context().close();
    const again = await (await context()).newPage();
    await again.goto(address(new URL(link).hash.slice(1)));
    await again.getByLabel("New password").fill("a third password");
    await again.getByLabel("Repeat the password").fill("a third password");
    await again.keyboard.press("Enter");
    await again.getByRole("alert").filter({ hasText: "This link" }).waitFor();
    await again.context().close();
    await open.context().close();
  });
});
