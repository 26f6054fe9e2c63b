import { afterAll, afterEach, describe, expect, it } from "vitest";
import { address, close, context, faults, PHONE, shop, signedIn } from "./harness";
import { hasFocus, linkFor, press, tabTo, type } from "./parts";

afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

describe("team, with the keyboard alone", () => {
  it("invites a person, shares points, changes the role and disables the account", async () => {
    const owner = await shop({ points: 300 });
    const email = `invited-${Date.now()}@browser.example`;
    const page = await signedIn(owner, "/team");
    const dialog = page.getByRole("dialog");
    await press(page, page.getByRole("button", { name: "Invite a person" }));
    await type(page, dialog.getByLabel("E-mail"), "not-an-address");
    await page.keyboard.press("Enter");
    await dialog.getByText("This is not a complete e-mail address.").waitFor();
    await type(page, dialog.getByLabel("E-mail"), owner.email);
    await page.keyboard.press("Enter");
    await dialog.getByText("is registered already").waitFor();
    await type(page, dialog.getByLabel("E-mail"), email);
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Open invitations" }).getByText(email).waitFor();
    await hasFocus(page);

    // The colleague joins on a phone.
    const colleague = await (await context(PHONE)).newPage();
    await colleague.goto(address(new URL(await linkFor(email)).hash.slice(1)));
    await colleague.getByRole("heading", { name: /^Join Shop/ }).waitFor();
    await colleague.getByLabel("Your name (optional)").fill("Li Wei");
    await colleague.getByLabel("Password", { exact: true }).fill("correct horse 1");
    await colleague.keyboard.press("Enter");
    await colleague.getByRole("heading", { name: "Studio" }).waitFor();
    await colleague.getByRole("link", { name: "0 points", exact: true }).waitFor();

    // More than there is stands beside its field; a part of it arrives.
    await page.reload();
    await press(page, page.getByRole("button", { name: "Transfer points Li Wei" }));
    await type(page, dialog.getByLabel("Points"), "400");
    await page.keyboard.press("Enter");
    await dialog.locator(".ant-form-item-explain-error").waitFor();
    await dialog.locator(".ant-btn-loading").waitFor({ state: "detached" });
    await type(page, dialog.getByLabel("Points"), "40");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "hidden" });
    await expect.poll(() => page.getByTestId("balance").textContent(), { timeout: 30_000 }).toBe("260");
    await hasFocus(page);
    await colleague.reload();
    await colleague.getByRole("link", { name: "40 points", exact: true }).waitFor();

    // A viewer sees what the shop made, and cannot make anything.
    await press(page, page.getByRole("button", { name: "Change roles Li Wei" }));
    await tabTo(page, dialog.getByRole("combobox", { name: "Roles" }));
    await page.keyboard.press("Backspace");
    await page.keyboard.type("Viewer");
    await page.locator(".ant-select-item-option").filter({ hasText: "Viewer" }).waitFor();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await press(page, dialog.getByRole("button", { name: "Save" }));
    await page.getByRole("row", { name: /Li Wei/ }).getByText("Viewer").waitFor();
    await colleague.reload();
    await colleague.getByRole("heading", { name: "Library", level: 1 }).waitFor();
    expect(await colleague.getByRole("link", { name: "Studio" }).count()).toBe(0);
    await colleague.goto(address("/studio/cutout"));
    await colleague.getByRole("heading", { name: "You have no permission for this page" }).waitFor();

    await press(page, page.getByRole("button", { name: "Disable Li Wei" }));
    await dialog.getByText("The person is signed out").waitFor();
    await press(page, dialog.getByRole("button", { name: "Disable" }));
    await page.getByRole("button", { name: "Enable Li Wei" }).waitFor();
    await hasFocus(page);
    await colleague.reload();
    await colleague.getByRole("button", { name: "Sign in" }).waitFor();
    await colleague.context().close();
    await page.context().close();
  });
});
