import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { axeInBothLooks, close, DESKTOP, faults, PHONE, request, shop, signedIn, type Shop } from "./harness";
import { choose, english, LONG_MS, RECEIVER, Receiver, runJob, until, visit, word } from "./operator";
import { isWithin, press, tabTo, type } from "./parts";

const OWN = ["nightly stock at home", "broken target", "typed", "stocktaking"];
const receiver = new Receiver();
let who: Shop;
let retried: { jobId: string; runId: string };
beforeAll(async () => {
  await receiver.start();
  who = await shop({ points: 0, tier: "vip" });
  // Fails while the other journey runs, so that nobody waits for its third attempt.
  retried = await runJob(who, "broken target", "/fail", 9);
}, LONG_MS);
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(async () => {
  await request("POST", `/runs/${retried.runId}/terminate`, { token: who.accessToken }).catch(() => undefined);
  await receiver.stop();
  await close();
});

/** A past time for an input of type datetime-local, in the browser's zone, which is UTC. */
const past = (days: number, clock: string) => `${new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10)}T${clock}`;

describe("jobs", () => {
  it("are created with a preview, run, backfilled, paused and read", { timeout: 240_000 }, async () => {
    const page = await signedIn(who, "/jobs", { ...DESKTOP, timezoneId: "UTC" });
    await page.getByRole("button", { name: "New job" }).first().click();
    await page.getByLabel("Name", { exact: true }).fill("nightly stock");
    await page.getByLabel("Address", { exact: true }).fill(`${RECEIVER}/ok`);
    await page.getByLabel("Time", { exact: true }).fill("02:30");
    const preview = page.getByTestId("preview");
    await preview.filter({ hasText: /02:30/ }).waitFor();
    expect(await preview.locator("strong").innerText()).toMatch(/day/i);
    expect(await preview.locator("li").count()).toBe(5);
    // A cron expression that is none is refused before anything is made.
    await choose(page, "When", "Cron expression");
    await page.getByRole("textbox", { name: "Cron expression" }).fill("99 * * * *");
    await page.getByRole("alert").first().waitFor();
    await choose(page, "When", "Every day");
    await page.getByLabel("Time", { exact: true }).fill("02:30");
    await page.getByRole("button", { name: "Create the job" }).click();
    await page.getByRole("link", { name: "Open the job" }).or(page.getByRole("heading", { name: "nightly stock" })).first().waitFor();
    if (await page.getByRole("link", { name: "Open the job" }).isVisible()) await page.getByRole("link", { name: "Open the job" }).click();
    await page.getByRole("heading", { name: "nightly stock" }).waitFor();

    await page.getByRole("button", { name: "Run now" }).click();
    const runs = page.getByRole("region", { name: "Runs" });
    await runs.getByText("Succeeded").waitFor({ timeout: LONG_MS });
    await runs.getByRole("link").first().click();
    await page.getByRole("heading", { name: /^Run of/ }).waitFor();
    const log = page.getByRole("region", { name: "Log" });
    await log.getByText(/200/).first().waitFor({ timeout: LONG_MS });
    expect(receiver.calls).toContain("/ok");
    await page.getByRole("link", { name: "The job" }).click();

    // First how many runs, then the runs.
    await page.getByRole("button", { name: "Backfill" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("From").fill(past(3, "00:00"));
    await dialog.getByLabel("To (not included)").fill(past(1, "00:00"));
    await dialog.getByRole("button", { name: "Count the runs" }).click();
    await dialog.getByText("This starts 2 runs.").waitFor();
    expect(await runs.getByText("Backfill").count()).toBe(0);
    await dialog.getByRole("button", { name: "Start" }).click();
    await dialog.getByText("2 of 2 done, 0 failed.").waitFor({ timeout: LONG_MS });
    await dialog.locator(".ant-modal-footer").getByRole("button", { name: "Close" }).click();
    await page.getByRole("region", { name: "Backfills" }).getByText("Completed").waitFor();
    await page.getByText("7 days", { exact: true }).click();
    const fires = page.getByRole("region", { name: "Fires" });
    await fires.getByText("Became a run").first().waitFor();
    expect(await fires.getByText("Became a run").count()).toBe(2);

    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").getByLabel("Reason").fill("stocktaking");
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByText("stocktaking").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByText("Run once, for the newest").click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.locator(".job-facts .tag").filter({ hasText: "Active" }).waitFor();

    // A file of jobs: saved, changed, shown and taken.
    await page.getByRole("navigation").getByRole("link", { name: "Jobs" }).first().click();
    await page.getByRole("link", { name: "nightly stock" }).waitFor();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
    const file = readFileSync((await download.path())!, "utf8");
    await page.getByRole("button", { name: "Import" }).click();
    await page.getByRole("dialog").getByLabel("Jobs as JSON").fill(file.replace("nightly stock", "nightly stock at home"));
    await page.getByRole("dialog").getByRole("button", { name: "Show what would change" }).click();
    await page.getByText("0 new, 1 changed, 1 unchanged.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Import" }).click();
    await page.getByRole("link", { name: "nightly stock at home" }).waitFor();
    await page.context().close();
  });

  it("say from the third attempt that they back off", { timeout: 120_000 }, async () => {
    await until(() => request<{ attempt: number; state: string }>("GET", `/runs/${retried.runId}`, { token: who.accessToken }), (run) => run.attempt >= 3 && run.state === "RETRYING", 2 * LONG_MS);
    const page = await signedIn(who, `/jobs/runs/${retried.runId}`);
    await page.getByText(/^Busy, backing off until /).waitFor({ timeout: LONG_MS });
    await page.getByRole("region", { name: "Log" }).getByText(/500/).first().waitFor();
    await page.getByRole("button", { name: "Terminate" }).click();
    await page.locator(".job-facts .tag").filter({ hasText: "Terminated" }).waitFor({ timeout: LONG_MS });
    await page.context().close();
  });

  it("say beside the button why a job does not run, in Chinese", { timeout: 120_000 }, async () => {
    const { jobId } = await request<{ jobId: string }>("POST", "/jobs", { token: who.accessToken, body: { name: "old", schedule: { type: "CRON", expr: "0 3 1 1 *", timezone: "UTC" }, task: { type: "HTTP", url: `${RECEIVER}/ok` } } });
    const page = await signedIn(who, `/jobs/${jobId}`, DESKTOP, "zh");
    await page.getByRole("button", { name: "立即运行" }).waitFor();
    await request("DELETE", `/jobs/${jobId}`, { token: who.accessToken });
    await page.getByRole("button", { name: "立即运行" }).click();
    const alert = page.locator(".page-head").getByRole("alert");
    await alert.waitFor();
    expect(await alert.innerText()).toMatch(/^[^A-Za-z]+$/);
    await page.context().close();
  });

  it("are made, run and paused with the keyboard alone", { timeout: 120_000 }, async () => {
    const page = await signedIn(who, "/jobs/new");
    await type(page, page.getByLabel("Name", { exact: true }), "typed");
    await type(page, page.getByLabel("Address", { exact: true }), `${RECEIVER}/ok`);
    await press(page, page.getByRole("button", { name: "Create the job" }));
    const secret = page.getByRole("link", { name: "Open the job" });
    const title = page.getByRole("heading", { name: "typed" });
    await title.or(secret).first().waitFor();
    if (await secret.isVisible()) await press(page, secret);
    await title.waitFor();
    await press(page, page.getByRole("button", { name: "Run now" }));
    await page.getByRole("region", { name: "Runs" }).getByText("Succeeded").waitFor({ timeout: LONG_MS });
    await press(page, page.getByRole("button", { name: "Pause" }));
    await type(page, page.getByRole("dialog").getByLabel("Reason"), "stocktaking");
    await tabTo(page, page.getByRole("dialog").getByRole("button", { name: "Pause" }));
    await page.keyboard.press("Enter");
    await page.locator(".job-facts .tag").filter({ hasText: "Paused" }).waitFor();
    await page.context().close();
  });

  it.each([
    ["desktop, English", DESKTOP, "en"],
    ["phone, Chinese", PHONE, "zh"],
  ] as const)("have nothing serious for axe in both looks: %s", { timeout: 150_000 }, async (_, options, language) => {
    const page = await signedIn(who, "/jobs", options, language);
    const found: Record<string, string[]> = {};
    const pages: [string, string][] = [["/jobs", word("navJobs", language)], ["/jobs/new", word("jobNew", language)], [`/jobs/${retried.jobId}`, "broken target"], [`/jobs/runs/${retried.runId}`, language === "zh" ? "的运行" : "Run of"]];
    for (const [path, title] of pages) {
      await visit(page, path, page.locator("main h1", { hasText: title }));
      await isWithin(page, path);
      found[path] = await axeInBothLooks(page);
      if (language === "zh") found[path].push(...(await english(page, OWN)));
    }
    await page.context().close();
    expect(Object.entries(found).flatMap(([path, all]) => all.map((one) => `${path}: ${one}`))).toEqual([]);
  });
});
