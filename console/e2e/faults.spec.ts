import { afterAll, afterEach, describe, expect, it } from "vitest";
import { close, faults, operator, request, shop, signedIn, stack } from "./harness";
import { asAdmin, runJob, until } from "./operator";
import { settled } from "./parts";

afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

/** Faults of the first console that no journey meets; docs/console.md has all of them. */
describe("faults of the first console", () => {
  it("19: the places of a pool are told apart from the slots of its workers, and add up", async () => {
    interface Pool {
      pool: string;
      slots: number;
      slotsByType: Record<string, number>;
    }
    const { pools } = await asAdmin<{ pools: Pool[] }>("GET", "/ops/scheduler");
    const { items } = await asAdmin<{ items: { pool: string; slots: number }[] }>("GET", "/ops/workers?limit=100");
    const pool = pools.find((one) => items.some((worker) => worker.pool === one.pool))!;
    const own = items.filter((worker) => worker.pool === pool.pool).reduce((sum, worker) => sum + worker.slots, 0);
    // Beyond the slots, the same number of steps is handed out ahead for each type.
    const ahead = (pool.slots - own) / Object.values(pool.slotsByType).filter(Boolean).length;
    expect([pool.pool, Number.isInteger(ahead) && ahead >= 0 ? "" : { own, ...pool }]).toEqual([pool.pool, ""]);
    const page = await signedIn(await operator(), "/ops/shares");
    await page.getByRole("heading", { name: new RegExp(`of at most ${pool.slots} steps handed out \\(slots of its workers, and a few ahead\\)`) }).first().waitFor();
    await page.context().close();
  });

  it("21: nothing ticked discards nothing, one ticked leaves the other, and a reason is asked for", async () => {
    const who = await shop({ points: 0 });
    // Nothing listens there.
    const runs = [await runJob(who, "gone", "/fail"), await runJob(who, "gone too", "/fail")].map(({ runId }) => runId);
    const state = (runId: string) => request<{ state: string }>("GET", `/runs/${runId}`, { token: who.accessToken });
    for (const runId of runs) await until(() => state(runId), (run) => run.state === "FAILED");
    const letters = async () => (await asAdmin<{ items: { messageId: string }[] }>("GET", "/ops/dlq/runs?limit=100")).items.map((one) => one.messageId);
    await until(letters, (all) => runs.every((one) => all.includes(one)));
    const page = await signedIn(await operator(), "/ops/dead-letters");
    await page.locator("tbody tr").filter({ has: page.getByText(/^runs$/i) }).getByRole("button", { name: /^Read/ }).click();
    const discard = page.getByRole("button", { name: "Discard", exact: true });
    await discard.waitFor();
    expect(await discard.isDisabled()).toBe(true);
    await page.getByRole("checkbox", { name: `Choose ${runs[0]}` }).check();
    await discard.click();
    const confirm = page.getByRole("dialog").getByRole("button", { name: "Discard" });
    expect(await confirm.isDisabled()).toBe(true);
    await page.getByRole("dialog").getByLabel("Reason").fill("the server is gone");
    await confirm.click();
    await until(letters, (all) => !all.includes(runs[0]!));
    expect(await letters()).toContain(runs[1]);
    await page.context().close();
  });

  it("22: the audit is searched by e-mail and an unknown tool is named", async () => {
    const who = await shop({ points: 7 });
    const page = await signedIn(await operator(), "/ops/audit");
    await page.getByLabel("Person").fill(stack.admin.login);
    await page.getByRole("button", { name: "Search" }).click();
    await settled(page);
    expect(await page.locator("tbody tr").count()).toBeGreaterThan(0);
    await page.context().close();
    const own = await signedIn(who, "/studio/no-such-tool");
    await own.getByText("There is no such tool").waitFor();
    await own.context().close();
  });
});
