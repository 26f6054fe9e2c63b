import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { close, faults, request, shop, signedIn, type Shop } from "./harness";
import { asAdmin } from "./operator";
import { completed, hasFocus, isShown, press, pressItem, start, submit, tabTo, taskId, type } from "./parts";

let who: Shop;
beforeAll(async () => {
  who = await shop({ points: 2000, tier: "vip" });
});
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

interface View {
  tool: string;
  status: string;
  chargedPoints: number;
  results: { name: string }[];
}
const view = (id: string) => request<View>("GET", `/tasks/${id}`, { token: who.accessToken });

describe("studio", () => {
  it("erases what the brush has marked", async () => {
    const page = await signedIn(who, "/studio/erase?sample=bottle");
    await page.getByTestId("mask-canvas").waitFor();
    // Nothing is asked of the server and nothing complains before the place is marked.
    expect(await page.getByRole("alert").count()).toBe(0);
    await start(page).click();
    await page.getByRole("alert").filter({ hasText: "Mark at least one place" }).waitFor();
    const area = (await page.getByTestId("mask-canvas").boundingBox())!;
    await page.mouse.move(area.x + area.width * 0.45, area.y + area.height * 0.68);
    await page.mouse.down();
    await page.mouse.move(area.x + area.width * 0.55, area.y + area.height * 0.7, { steps: 4 });
    await page.mouse.up();
    const id = await submit(page);
    await completed(page);
    await isShown(page);
    expect(await view(id)).toMatchObject({ tool: "erase", status: "COMPLETED", chargedPoints: 4 });
    await page.context().close();
  });

  it("takes boxes by numbers with the keyboard alone", async () => {
    const page = await signedIn(who, "/studio/repaint?sample=bottle");
    await page.getByTestId("mask-canvas").waitFor();
    await press(page, page.getByRole("button", { name: "Add a box" }));
    await type(page, page.getByLabel("Box 1: left"), "80");
    await page.keyboard.press("Tab");
    // A box of 50 % from 80 % on would leave the picture: it is cut at the edge.
    expect(await page.getByLabel("Box 1: width").inputValue()).toBe("20");
    // Undo closes itself when nothing is left to undo, and the focus stays near it.
    await press(page, page.getByRole("button", { name: "Undo" }));
    await hasFocus(page);
    await press(page, page.getByRole("button", { name: "Add a box" }));
    await page.getByTestId("wait").waitFor();
    await press(page, start(page));
    await page.waitForURL(/#\/tasks\//);
    await completed(page);
    await page.context().close();
  });

  it("cuts out a batch of five with the keyboard alone and packs all with good names", async () => {
    const page = await signedIn(who, "/studio/batch_cutout");
    const files = ["bottle", "mug", "shirt", "shirt-green", "coffee"].map((name) => `public/samples/${name}.jpg`);
    const chooser = page.waitForEvent("filechooser");
    await press(page, page.getByRole("button", { name: "Choose pictures" }));
    await (await chooser).setFiles(files);
    await expect.poll(() => page.locator(".previews li").count(), { timeout: 30_000 }).toBe(5);
    expect(await page.getByTestId("price").textContent()).toBe("10 points");
    await page.getByTestId("wait").waitFor();
    await press(page, start(page));
    await page.waitForURL(/#\/tasks\//);
    await completed(page);
    await expect.poll(() => page.locator(".strip button").count(), { timeout: 30_000 }).toBe(5);
    const saved = page.waitForEvent("download");
    await press(page, page.getByRole("button", { name: "Download all (5)" }));
    const file = await saved;
    expect(file.suggestedFilename()).toMatch(/^artiway-batch_cutout-\d{8}\.zip$/);
    const text = readFileSync(await file.path()).toString("latin1");
    expect([...text.matchAll(/artiway-batch_cutout-\d{8}-(\d)\.png/g)].map((found) => found[1]).sort().join("")).toBe("1122334455");
    await page.context().close();
  });

  it("shows the steps of a model photo while they run", async () => {
    const page = await signedIn(who, "/studio/model_photo?sample=shirt");
    await page.locator(".previews img").waitFor();
    await type(page, page.getByLabel("How many"), "2");
    await expect.poll(() => page.getByTestId("price").textContent(), { timeout: 30_000 }).toBe("20 points");
    await page.getByTestId("wait").waitFor();
    await press(page, start(page));
    await page.waitForURL(/#\/tasks\//);
    await page.locator(".dag-node").first().waitFor();
    expect(await page.locator(".dag-node").count()).toBe(5);
    expect(await page.locator(".dag-edges path").count()).toBe(4);
    expect(await page.locator(".dag-title").allTextContents()).toEqual(expect.arrayContaining(["Cut out", "Compose 1", "Compose 2"]));
    await completed(page);
    await expect.poll(() => page.locator(".dag-node.completed").count(), { timeout: 30_000 }).toBe(5);
    await expect.poll(() => page.locator(".strip button").count(), { timeout: 30_000 }).toBe(2);
    // Durations are known from the events.
    expect(await page.locator(".dag-state").allTextContents()).toEqual(expect.arrayContaining([expect.stringMatching(/\d s/)]));
    // Both pictures are reached with the keyboard.
    await press(page, page.getByRole("button", { name: "Picture 2", exact: true }));
    expect(await page.getByRole("button", { name: "Picture 2", exact: true }).getAttribute("aria-pressed")).toBe("true");
    await page.context().close();
  });

  it("says why a task cannot start, in place of a wait that is not true", async () => {
    await asAdmin("POST", "/ops/lanes/vip_short/pause", { reason: "browser test" });
    const page = await signedIn(who, "/studio/cutout?sample=bottle");
    try {
      await page.getByText("It cannot start now: The queue is paused").waitFor();
      expect(await page.getByTestId("wait").count()).toBe(0);
    } finally {
      await asAdmin("POST", "/ops/lanes/vip_short/resume");
    }
    // The form notices by itself that it can start again.
    await page.getByTestId("wait").waitFor();
    expect(await page.getByText("It cannot start now").count()).toBe(0);
    await page.context().close();
  });

  it("takes a result as the next input and runs it again with changes", async () => {
    const page = await signedIn(who, "/studio/crop?sample=mug");
    await submit(page);
    await completed(page);
    const first = taskId(page);
    await press(page, page.getByRole("button", { name: "Use as next input" }));
    await pressItem(page, "Style transfer");
    await page.waitForURL(/#\/studio\/style/);
    await page.locator(".previews img").waitFor();
    await submit(page);
    await completed(page);
    expect(taskId(page)).not.toBe(first);
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download", exact: true }).click();
    expect((await saved).suggestedFilename()).toMatch(/style.*\.png$/);
    await press(page, page.getByRole("button", { name: "Run again with changes" }));
    await page.waitForURL(/#\/studio\/style/);
    await page.locator(".previews img").waitFor();
    await page.context().close();
  });

  it("keeps tool, picture and options when the language changes", async () => {
    const page = await signedIn(who, "/studio/scene?sample=mug");
    await page.locator(".previews img").waitFor();
    await page.getByLabel("Prompt").fill("a marble table");
    await page.getByRole("button", { name: "中文" }).click();
    await page.getByRole("heading", { name: "商品场景图" }).waitFor();
    expect(await page.locator(".previews img").count()).toBe(1);
    expect(await page.getByLabel("提示词").inputValue()).toBe("a marble table");
    await page.getByRole("link", { name: "作品库" }).first().click();
    await page.goBack();
    expect(await page.getByLabel("提示词").inputValue()).toBe("a marble table");
    await page.context().close();
  });

  it("says why a file cannot be used and takes a PNG that is called .jpg", async () => {
    const page = await signedIn(who, "/studio/cutout");
    const input = page.getByTestId("file").first();
    await input.setInputFiles({ name: "notes.png", mimeType: "image/png", buffer: Buffer.from("just a text") });
    await page.getByRole("alert").filter({ hasText: "notes.png is not a picture" }).waitFor();
    const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAFElEQVR4nGNcMWMGAzbAhFV0sEoAAAvJAVvLdT6GAAAAAElFTkSuQmCC", "base64");
    await input.setInputFiles({ name: "really-a-png.jpg", mimeType: "image/jpeg", buffer: png });
    await page.getByTestId("wait").waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    await page.context().close();
  });

  it("shows what was made in the library and finds it by filters", async () => {
    const page = await signedIn(who, "/library?tool=crop");
    await page.locator(".library .tile").first().waitFor();
    expect(new Set(await page.locator(".tile-title").allTextContents())).toEqual(new Set(["Smart crop"]));
    // Another filter, with the keyboard: the focus stays in it and the address keeps it.
    await tabTo(page, page.getByRole("combobox", { name: "Status" }));
    await page.keyboard.press("ArrowDown");
    await page.locator(".ant-select-dropdown:visible").waitFor();
    for (let steps = 0; steps < 12 && !(await page.locator(".ant-select-item-option-active").filter({ hasText: "Failed" }).count()); steps += 1) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Nothing matches" }).waitFor();
    await hasFocus(page);
    expect(page.url()).toContain("status=FAILED");
    await page.context().close();
  });
});
