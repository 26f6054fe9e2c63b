import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import { address, axeInBothLooks, close, DESKTOP, faults, operator, PHONE, request, shop, signedIn, stack, type Shop } from "./harness";
import { asAdmin, blank, bottle, choose, cutout, english, LONG_MS, Receiver, runJob, taskEnded, until, visit, word } from "./operator";
import type { Word } from "../src/i18n/words";
import { isWithin, press, tabTo, type } from "./parts";

const LANE = "VIP, short tasks";
const receiver = new Receiver();
let who: Shop;
let [done, failed]: [string, string] = ["", ""];
let dead: { jobId: string; runId: string };

beforeAll(async () => {
  await receiver.start();
  who = await shop({ points: 200, tier: "vip" });
  done = await cutout(who, bottle(), "image/jpeg");
  failed = await cutout(who, blank(), "image/png");
  dead = await runJob(who, "sends the stock", "/flip");
  await Promise.all([taskEnded(who, done), taskEnded(who, failed)]);
  await until(() => request<{ state: string }>("GET", `/runs/${dead.runId}`, { token: who.accessToken }), (run) => run.state === "FAILED");
}, 3 * LONG_MS);
afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(async () => {
  await asAdmin("POST", "/ops/lanes/vip_short/resume").catch(() => undefined);
  await asAdmin("DELETE", "/ops/settings/guard.redis_connections").catch(() => undefined);
  await receiver.stop();
  await close();
});

const short = (id: string) => `${id.slice(0, 8)}…${id.slice(-5)}`;
const row = (page: Page, id: string) => page.locator("tbody tr").filter({ hasText: short(id) });
const section = (page: Page, name: string) => page.getByRole("navigation", { name: "Operations" }).getByRole("link", { name, exact: true });

/** Names that people gave to shops, to themselves and to jobs, and the reason that a lane was paused for. */
async function ownNames(): Promise<string[]> {
  const [tenants, runs, audit] = await Promise.all([
    asAdmin<{ items: { name: string }[] }>("GET", "/tenants?limit=100"),
    asAdmin<{ items: { jobName: string }[] }>("GET", "/ops/runs?limit=100"),
    asAdmin<{ items: { actorName: string | null; tenantName: string | null }[] }>("GET", "/ops/audit?limit=100"),
  ]);
  return [...tenants.items.map((one) => one.name), ...runs.items.map((one) => one.jobName), ...audit.items.flatMap((one) => [one.actorName ?? "", one.tenantName ?? ""]), "driver update"];
}

/** Send the number of a limit. Its editor closes a moment after the list shows the number; until then a click closes it. */
async function saved(page: Page, name: string): Promise<void> {
  await page.keyboard.press("Enter");
  await page.getByRole("spinbutton", { name }).waitFor({ state: "hidden" });
}

/** The clicks of a newcomer: the answer stands on the page after three of them at most. */
async function clicks(...all: (() => Promise<void>)[]): Promise<void> {
  expect(all.length).toBeLessThanOrEqual(3);
  for (const click of all) await click();
}

describe("a newcomer at the first page", () => {
  let page: Page;
  let waiting: string[];
  const ask = (question: string) => () => page.getByRole("link", { name: question }).click();

  beforeAll(async () => {
    await asAdmin("POST", "/ops/lanes/vip_short/pause", { reason: "driver update" });
    waiting = [await cutout(who, bottle(), "image/jpeg"), await cutout(who, bottle(), "image/jpeg")];
    page = await signedIn(await operator(), "/ops");
  }, 2 * LONG_MS);
  beforeEach(async () => {
    await page.goto(address("/ops"));
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
  });
  afterAll(() => page.context().close());

  it("reads what is wrong now, and since when", { timeout: 120_000 }, async () => {
    await page.getByText(/Lane VIP, short tasks is paused.*driver update.*since/s).waitFor();
    await page.getByText(/Dead letters in “Failed runs of jobs”: \d+/).waitFor();
  });

  it("asks why a task waits, and cancels two that wait", { timeout: 120_000 }, async () => {
    await clicks(ask("Why is this task waiting?"), () => row(page, waiting[0]!).getByRole("link").first().click());
    await page.getByRole("region", { name: "Why it waits" }).getByText("The queue is paused").waitFor();
    await section(page, "Tasks").click();
    await choose(page, "Status", "Queued");
    for (const id of waiting) await row(page, id).getByRole("checkbox").check();
    await page.getByRole("button", { name: "Cancel tasks" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel tasks" }).click();
    await page.getByText("2 done, 0 refused.").waitFor();
    for (const id of waiting) expect((await taskEnded(who, id)).status).toBe("CANCELLED");
    await asAdmin("POST", "/ops/lanes/vip_short/resume");
  });

  it("asks which tenant got how much in the last hour", { timeout: 120_000 }, async () => {
    const name = (await asAdmin<{ items: { name: string }[] }>("GET", `/tenants?q=${who.tenantId}`)).items[0]!.name;
    await clicks(ask("Which tenant got how much in the last hour?"));
    await page.getByRole("region", { name: "Shares", exact: true }).getByRole("listitem").filter({ hasText: name }).filter({ hasText: /\d %/ }).first().waitFor();
  });

  it("asks what failed since midnight, and retries it", { timeout: 120_000 }, async () => {
    await clicks(ask("What failed since midnight, and can I retry it?"), () => row(page, failed).getByRole("checkbox").check());
    await page.getByRole("button", { name: "Retry tasks" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Retry tasks" }).click();
    await page.getByText("1 done, 0 refused.").waitFor();
  });

  it("asks whether anybody's money is wrong", { timeout: 120_000 }, async () => {
    await clicks(ask("Is anybody's money wrong?"));
    await page.getByRole("heading", { name: /Invariants All hold/ }).waitFor();
    await page.getByRole("heading", { name: "Bills of WeChat Pay" }).waitFor();
  });

  it("asks whether last night's jobs all fired", { timeout: 120_000 }, async () => {
    await clicks(ask("Did last night's jobs all fire?"));
    await page.getByText("Every fire so far has become a run or a note. No fire was lost.").waitFor();
    await page.getByRole("link", { name: "sends the stock", exact: true }).first().waitFor();
  });
});

describe("an operator", () => {
  it("searches a task, reads its attempts and log, and replays a dead letter", { timeout: 240_000 }, async () => {
    const page = await signedIn(await operator(), "/ops/tasks");
    await page.getByPlaceholder("Task, trace or e-mail").fill(who.email);
    await page.keyboard.press("Enter");
    await row(page, failed).getByRole("link").first().click();
    const attempts = page.getByRole("region", { name: "Attempts" });
    await attempts.getByText(/^\S+-[0-9a-f]{6}$/).first().waitFor();
    await attempts.getByText("Failed").first().waitFor();
    expect(await page.locator(".ops-timeline li").filter({ hasText: /Processing → Failed/ }).count()).toBeGreaterThan(0);
    const trace = await page.locator(".ops-facts").getByText(/^[0-9a-f]{32}$|^1-/).first().innerText();
    await section(page, "Tasks").click();
    await page.getByPlaceholder("Task, trace or e-mail").fill(trace);
    await page.keyboard.press("Enter");
    await row(page, failed).waitFor();

    await section(page, "Dead letters").click();
    await page.getByRole("button", { name: "Read Failed runs of jobs" }).click();
    await page.getByRole("link", { name: short(dead.runId) }).click();
    await page.getByRole("region", { name: "Log" }).getByText(/500/).first().waitFor();
    await page.goBack();
    await page.getByRole("button", { name: "Read Failed runs of jobs" }).click();
    // Nothing is ticked, so nothing is sent back.
    expect(await page.getByRole("button", { name: "Send back" }).isDisabled()).toBe(true);
    receiver.isRepaired = true;
    await page.getByRole("checkbox", { name: `Choose ${dead.runId}` }).check();
    await page.getByRole("button", { name: "Send back" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Send back" }).click();
    await page.getByText("1 messages were sent back.").waitFor();
    await until(() => request<{ state: string }>("GET", `/runs/${dead.runId}`, { token: who.accessToken }), (run) => run.state === "SUCCESS");
    await section(page, "Audit").click();
    await page.getByLabel("Target").fill(dead.runId);
    await page.getByRole("button", { name: "Search" }).click();
    const entry = page.locator("tbody tr").filter({ hasText: "run.replay" });
    await entry.first().waitFor();
    expect(await entry.first().innerText()).not.toMatch(/usr_/);
    await page.context().close();
  });

  it("changes a setting that degrades the platform, and meanwhile pauses a lane and sets limits", { timeout: 240_000 }, async () => {
    const page = await signedIn(await operator(), "/ops/settings");
    const banner = page.getByText("The platform is degraded", { exact: false });
    const dialog = page.getByRole("dialog");
    await page.getByLabel("Find a setting").fill("guard.redis_connections");
    await page.getByRole("button", { name: "Change guard.redis_connections" }).click();
    await dialog.getByRole("spinbutton", { name: "Value" }).fill("1");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "Restore default guard.redis_connections" }).waitFor();

    await section(page, "Lanes and models").click();
    await page.getByRole("button", { name: `Pause ${LANE}` }).click();
    expect(await dialog.getByRole("button", { name: "Pause" }).isDisabled()).toBe(true);
    await dialog.getByLabel("Reason").fill("driver update");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: `Resume ${LANE}` }).click();
    await page.getByRole("button", { name: `Pause ${LANE}` }).waitFor();
    await page.getByRole("button", { name: `Change Parallelism ${LANE}: No limit` }).click();
    await page.getByRole("spinbutton", { name: `Parallelism ${LANE}` }).fill("3");
    await saved(page, `Parallelism ${LANE}`);
    await page.getByRole("button", { name: `Change Parallelism ${LANE}: 3` }).click();
    await page.getByRole("button", { name: "No limit", exact: true }).click();
    await page.getByRole("button", { name: `Change Parallelism ${LANE}: No limit` }).waitFor();

    await banner.waitFor({ timeout: 2 * LONG_MS });
    await page.getByRole("link", { name: "See why" }).click();
    await page.getByText(/Redis connections is \d+ open; the limit is 1 open\./).waitFor();
    await section(page, "Settings").click();
    await page.getByLabel("Find a setting").fill("guard.redis_connections");
    await page.getByRole("button", { name: "Restore default guard.redis_connections" }).click();
    await dialog.getByRole("button", { name: "Restore default" }).click();
    await page.getByRole("button", { name: "Restore default guard.redis_connections" }).waitFor({ state: "detached" });

    await section(page, "Lanes and models").click();
    const limits = page.getByRole("region", { name: "Models" }).getByRole("button", { name: /^Change Limit .*: No limit$/ });
    const model = /^Change Limit (.*): No limit$/.exec((await limits.first().getAttribute("aria-label"))!)![1]!;
    await limits.first().click();
    await page.getByRole("spinbutton", { name: `Limit ${model}` }).fill("7");
    await saved(page, `Limit ${model}`);
    await page.getByRole("button", { name: `Change Limit ${model}: 7` }).click();
    await page.getByRole("button", { name: "No limit", exact: true }).click();
    await page.getByRole("button", { name: `Change Limit ${model}: No limit` }).waitFor();
    await banner.waitFor({ state: "detached", timeout: 2 * LONG_MS });
    await page.context().close();
  });

  it("changes a tenant, gives points, refunds an order, and asks what if", { timeout: 240_000 }, async () => {
    const order = await request<{ orderId: string }>("POST", "/orders", { token: who.accessToken, body: { packageId: "starter", channel: "native" }, key: crypto.randomUUID() });
    const paid = await fetch(`${stack.wechatSimUrl}/sim/orders/${order.orderId.replace("ord_", "")}/pay`, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    expect(paid.ok).toBe(true);
    const page = await signedIn(await operator(), "/ops/tenants");
    await page.getByPlaceholder("Name, or e-mail of a person").fill(who.email);
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator("tbody tr").count(), { timeout: LONG_MS }).toBe(1);
    await page.locator("tbody tr a").first().click();
    await choose(page, "Tier", "Enterprise");
    await page.getByRole("spinbutton", { name: "Weight" }).fill("7");
    await page.getByRole("button", { name: "Save" }).click();
    const read = async () => (await asAdmin<{ items: { tier: string; weight: number; status: string }[] }>("GET", `/tenants?q=${who.tenantId}`)).items[0]!;
    await until(read, (tenant) => tenant.tier === "enterprise" && tenant.weight === 7);
    await page.getByRole("button", { name: `Give points ${who.email}` }).click();
    await page.getByRole("dialog").getByRole("spinbutton", { name: "Points" }).fill("11");
    await page.getByRole("dialog").getByLabel("Reason").fill("goodwill");
    await page.getByRole("dialog").getByRole("button", { name: "Give points" }).click();
    await page.getByText("11 points were given.").waitFor();
    await page.getByRole("button", { name: /^Refund ¥/ }).click();
    await page.getByRole("dialog").getByRole("spinbutton", { name: "Amount in yuan" }).fill("1");
    await page.getByRole("dialog").getByLabel("Reason").fill("late");
    await page.getByRole("dialog").getByRole("button", { name: "Refund" }).click();
    await page.getByRole("region", { name: "Orders" }).getByText("¥1.00").waitFor({ timeout: LONG_MS });
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Suspend" }).click();
    await until(read, (tenant) => tenant.status === "SUSPENDED");
    await page.getByRole("button", { name: "Reopen" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Reopen" }).click();
    await until(read, (tenant) => tenant.status === "ACTIVE");

    await section(page, "Shares").click();
    await page.getByRole("spinbutton", { name: /^Weight / }).first().fill("50");
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByRole("region", { name: "What if" }).getByText(/mean/).first().waitFor({ timeout: LONG_MS });
    await page.context().close();
  });

  it("acts with the keyboard alone", { timeout: 120_000 }, async () => {
    const page = await signedIn(await operator(), "/ops");
    await press(page, section(page, "Tasks"));
    await type(page, page.getByPlaceholder("Task, trace or e-mail"), failed);
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator("tbody tr").count(), { timeout: LONG_MS }).toBe(1);
    await tabTo(page, row(page, failed).getByRole("checkbox"));
    await page.keyboard.press("Space");
    await press(page, page.getByRole("button", { name: "Retry tasks" }));
    // The dialog takes the focus, and Escape leaves it without an act.
    await page.getByRole("dialog").waitFor();
    await expect.poll(() => page.evaluate(() => Boolean(document.activeElement?.closest("[role=dialog]")))).toBe(true);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await press(page, row(page, failed).getByRole("link").first());
    await page.getByRole("heading", { name: "Attempts" }).waitFor();
    await press(page, section(page, "Lanes and models"));
    await press(page, page.getByRole("button", { name: `Change Parallelism ${LANE}: No limit` }));
    await type(page, page.getByRole("spinbutton", { name: `Parallelism ${LANE}` }), "4");
    await saved(page, `Parallelism ${LANE}`);
    await press(page, page.getByRole("button", { name: `Change Parallelism ${LANE}: 4` }));
    await press(page, page.getByRole("button", { name: "No limit", exact: true }));
    await page.getByRole("button", { name: `Change Parallelism ${LANE}: No limit` }).waitFor();
    await page.context().close();
  });

  it("reads why a retry was refused beside the button, in Chinese", { timeout: 120_000 }, async () => {
    const page = await signedIn(await operator(), `/ops/tasks?q=${done}`, DESKTOP, "zh");
    await row(page, done).getByRole("checkbox").check();
    await page.getByRole("button", { name: "重试任务" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "重试任务" }).click();
    const outcome = page.getByRole("status").filter({ hasText: "成功 0 个，拒绝 1 个。" });
    await outcome.waitFor();
    expect((await outcome.locator("li").innerText()).replace(short(done), "")).toMatch(/^[^A-Za-z]+$/);
    await page.context().close();
  });

  it.each([
    ["desktop, English", DESKTOP, "en"],
    ["phone, Chinese", PHONE, "zh"],
  ] as const)("has nothing serious for axe in both looks: %s", { timeout: 200_000 }, async (_, options, language) => {
    const page = await signedIn(await operator(), "/ops", options, language);
    const found: Record<string, string[]> = {};
    const own = await ownNames();
    const titled: [string, Word][] = [["", "opsOverview"], ["/charts", "opsCharts"], ["/tasks", "opsTasks"], ["/runs", "opsRuns"], ["/texts", "opsTexts"], ["/lanes", "opsLanes"], ["/workers", "opsWorkers"], ["/shares", "opsShares"], ["/dead-letters", "opsDeadLetters"], ["/checks", "opsChecks"], ["/tenants", "opsTenants"], ["/audit", "opsAudit"], ["/settings", "opsSettings"]];
    const others: [string, Word][] = [[`/tasks/${failed}`, "opsAttempts"], [`/tenants/${who.tenantId}`, "opsPlan"], ["/settings?part=cache", "opsHitRate"], ["/settings?part=dictionaries", "opsKey"]];
    const pages = [
      ...titled.map(([path, title]) => [path, page.locator("main h1", { hasText: word(title, language) })] as const),
      ...others.map(([path, part]) => [path, page.locator("main h2, main th", { hasText: word(part, language) })] as const),
    ];
    for (const [path, mark] of pages) {
      await visit(page, `/ops${path}`, mark);
      await isWithin(page, path);
      found[path] = await axeInBothLooks(page);
      if (language === "zh") found[path].push(...(await english(page, own)));
    }
    await page.context().close();
    expect(Object.entries(found).flatMap(([path, all]) => all.map((one) => `${path}: ${one}`))).toEqual([]);
  });
});
