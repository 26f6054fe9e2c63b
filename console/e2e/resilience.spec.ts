import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import { address, close, context, faults, request, shop, signedIn, type Shop } from "./harness";
import { asAdmin, until } from "./operator";
import { completed, quiet, requests, submit, tabTo, taskId } from "./parts";

let who: Shop;
beforeAll(async () => {
  who = await shop({ points: 2000 });
});
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

describe("in the middle of a task", () => {
  it("goes on after a reload, the back button, a sign-in, in a second tab, and after five seconds without a network", async () => {
    const page = await signedIn(who, "/studio/outfit_poses?sample=shirt");
    const id = await submit(page);
    const read = () => request<{ status: string; lane: string }>("GET", `/tasks/${id}`, { token: who.accessToken });
    const { lane } = await read();
    // The lane is paused, so that all of this happens in the middle of the task.
    await asAdmin("POST", `/ops/lanes/${lane}/pause`, { reason: "browser test" });
    const stranger = await (await context()).newPage();
    let second: Page;
    try {
      await page.reload();
      await page.locator(".dag-node").first().waitFor();
      expect(taskId(page)).toBe(id);
      await page.getByRole("link", { name: "Library" }).first().click();
      await page.getByRole("heading", { name: "Library", level: 1 }).waitFor();
      await page.goBack();
      await page.locator(".dag-node").first().waitFor();
      expect(taskId(page)).toBe(id);
      second = await page.context().newPage();
      await second.goto(address(`/tasks/${id}`));
      await second.locator(".dag-node").first().waitFor();
      // The address of the task, opened before the sign-in.
      await stranger.goto(address(`/tasks/${id}`));
      await stranger.getByLabel("E-mail or phone").fill(who.email);
      await stranger.getByLabel("Password", { exact: true }).fill(who.password);
      await stranger.keyboard.press("Enter");
      await stranger.locator(".dag-node").first().waitFor();
      expect(taskId(stranger)).toBe(id);
      await page.context().setOffline(true);
      await page.getByText("You are offline").waitFor();
    } finally {
      await asAdmin("POST", `/ops/lanes/${lane}/resume`);
    }
    // Whatever the task reports now, neither tab hears of it.
    await Promise.all([page.waitForTimeout(5000), until(read, ({ status }) => status === "COMPLETED")]);
    expect(await page.locator(".page-head .tag").filter({ hasText: "Completed" }).count()).toBe(0);
    await page.context().setOffline(false);
    await Promise.all([completed(page), completed(second), completed(stranger)]);
    await expect.poll(() => page.locator(".strip button").count(), { timeout: 30_000 }).toBe(3);
    await expect.poll(() => page.getByTestId("charged").textContent(), { timeout: 30_000 }).toBe("30 points");
    await Promise.all([page.context().close(), stranger.context().close()]);
  });

  it("repeats a page that was asked for without a network", async () => {
    const page = await signedIn(who, "/");
    await page.getByRole("link", { name: "Library" }).first().click();
    await page.getByRole("heading", { name: "Library", level: 1 }).waitFor();
    await page.getByRole("link", { name: "Studio", exact: true }).first().click();
    await page.locator(".tool-card").first().waitFor();
    await page.context().setOffline(true);
    await page.getByText("You are offline").waitFor();
    await page.goto(address("/library?tool=outfit_poses"));
    await page.getByRole("heading", { name: "Library", level: 1 }).waitFor();
    await page.context().setOffline(false);
    await page.locator(".library .tile").first().waitFor();
    await page.context().close();
  });

  it("follows the events with few requests, and keeps the focus and the slider", async () => {
    const page = await signedIn(who, "/studio/outfit_poses?sample=shirt");
    await page.getByLabel("How many").fill("6");
    await expect.poll(() => page.getByTestId("price").textContent(), { timeout: 30_000 }).toBe("60 points");
    const id = await submit(page);
    const { lane } = await request<{ lane: string }>("GET", `/tasks/${id}`, { token: who.accessToken });
    await asAdmin("POST", `/ops/lanes/${lane}/pause`, { reason: "browser test" });
    try {
      await tabTo(page, page.getByRole("button", { name: "Cancel the task" }));
    } finally {
      await asAdmin("POST", `/ops/lanes/${lane}/resume`);
    }
    const seen = requests(page);
    // In each frame, as long as the button is there: it has the focus, or a part of the page that was chosen later.
    await page.evaluate(() => {
      const button = document.activeElement!;
      const look = () => {
        if (!button.isConnected) return;
        if (document.activeElement === document.body) throw new Error("a redraw took the focus");
        requestAnimationFrame(look);
      };
      look();
    });
    const slider = page.getByLabel("How much of the original is shown");
    await slider.waitFor();
    await tabTo(page, slider);
    await page.keyboard.press("ArrowRight");
    await completed(page);
    expect(await slider.inputValue()).toBe("1");
    expect(await slider.evaluate((one) => one === document.activeElement)).toBe(true);
    await quiet(page, 1000);
    // 13 steps send about 50 events. The old page read the task for each of them.
    expect(seen.filter((one) => one.includes("/tasks/")).length).toBeLessThanOrEqual(10);
    await page.context().close();
  });

  it("tells about a finished task on another page, and the back button returns to it", async () => {
    const page = await signedIn(who, "/studio/model_photo?sample=shirt");
    await submit(page);
    await page.getByRole("link", { name: "Library" }).first().click();
    await page.getByRole("status").filter({ hasText: "Virtual model photo is ready" }).first().waitFor({ timeout: 120_000 });
    await page.getByRole("button", { name: /^Notices \(1\)/ }).waitFor();
    await page.goBack();
    await completed(page);
    await page.getByRole("button", { name: /^Notices \(0\)/ }).waitFor();
    await page.context().close();
  });
});

describe("the session", () => {
  it("keeps a deep link through the sign-in and the form after a wrong password", async () => {
    const page = await (await context()).newPage();
    await page.goto(address("/library?tool=cutout"));
    await page.getByLabel("E-mail or phone").fill(who.email);
    await page.getByLabel("Password", { exact: true }).fill("not the password");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "is wrong" }).waitFor();
    expect(await page.getByLabel("E-mail or phone").inputValue()).toBe(who.email);
    await page.getByLabel("Password", { exact: true }).fill(who.password);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Library" }).waitFor();
    expect(page.url()).toContain("#/library?tool=cutout");
    // A new tab shares the session; signing out there signs out here.
    const other = await page.context().newPage();
    await other.goto(address("/library"));
    await other.getByRole("heading", { name: "Library" }).waitFor();
    await other.getByRole("button", { name: "Account and settings" }).click();
    await other.getByRole("menuitem", { name: "Sign out" }).click();
    await other.getByText("You are signed out.").waitFor();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
    await page.context().close();
  });

  it("says that it has ended and returns to the same page", async () => {
    const own = await shop({ points: 0 });
    const page = await signedIn(own, "/library");
    await page.evaluate(() => {
      const tokens = JSON.parse(localStorage.getItem("artiway.session")!);
      localStorage.setItem("artiway.session", JSON.stringify({ ...tokens, accessToken: "x.y.z", refreshToken: "gone" }));
    });
    await page.reload();
    await page.getByText("Your session has ended").waitFor();
    await page.getByLabel("E-mail or phone").fill(own.email);
    await page.getByLabel("Password", { exact: true }).fill(own.password);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Library" }).waitFor();
    await page.context().close();
  });

  it("refreshes expired tokens once for two tabs", async () => {
    const own = await shop({ points: 0 });
    const page = await signedIn(own, "/library");
    const second = await page.context().newPage();
    await second.goto(address("/"));
    await second.getByRole("heading", { name: "Studio" }).waitFor();
    await page.evaluate(() => {
      const tokens = JSON.parse(localStorage.getItem("artiway.session")!);
      localStorage.setItem("artiway.session", JSON.stringify({ ...tokens, expiresAt: 0 }));
    });
    await Promise.all([page.reload(), second.reload()]);
    await page.getByRole("heading", { name: "Library" }).waitFor();
    await second.getByRole("heading", { name: "Studio" }).waitFor();
    const token = await page.evaluate(() => JSON.parse(localStorage.getItem("artiway.session")!).accessToken as string);
    await request("GET", "/me", { token });
    await page.context().close();
  });
});

describe("the limit of the free tier", () => {
  it("is not met by clicking through the menu", async () => {
    const own = await shop({ points: 0 });
    const page = await signedIn(own, "/");
    const refused: string[] = [];
    page.on("response", (answer) => answer.status() === 429 && refused.push(answer.url()));
    for (const name of ["Library", "Wallet", "Team", "Developers", "Studio", "Library", "Wallet", "Studio"]) {
      await page.getByRole("link", { name, exact: true }).first().click();
      await page.getByRole("heading", { name, exact: true, level: 1 }).waitFor();
    }
    expect(refused).toEqual([]);
    expect(await page.getByRole("alert").count()).toBe(0);
    await page.context().close();
  });
});
