import { mkdirSync } from "node:fs";
import { expect, test } from "vitest";
import type { Page } from "playwright-core";
import { address, close, DESKTOP, operator, PHONE, request, shop, signedIn } from "./harness";
import { asAdmin, blank, bottle, cutout, LONG_MS, Receiver, runJob, taskEnded, until } from "./operator";
import { settled } from "./parts";

/** Screenshots of operations, jobs and text, with work of two shops in them: `SHOTS="FOLDER [name …]" npm run shots`. */
const [folder = "/tmp/shots", ...only] = (process.env.SHOTS ?? "").split(" ").filter(Boolean);
const MODES = [
  ["desktop-en", DESKTOP, "en", "light"],
  ["phone-zh", PHONE, "zh", "light"],
  ["desktop-zh-dark", DESKTOP, "zh", "dark"],
  ["phone-en-dark", PHONE, "en", "dark"],
] as const;
const wanted = (name: string) => only.length === 0 || only.some((one) => name.includes(one));

test("screenshots of operations, jobs and text", { timeout: 900_000 }, async () => {
  mkdirSync(folder, { recursive: true });
  const receiver = new Receiver();
  await receiver.start();
  const [north, south] = [await shop({ points: 5000, tier: "vip" }), await shop({ points: 5000, tier: "standard" })];
  await asAdmin("PATCH", `/tenants/${north.tenantId}`, { name: "North Ceramics" }).catch(() => undefined);
  await asAdmin("PATCH", `/tenants/${south.tenantId}`, { name: "South Linen" }).catch(() => undefined);
  const failed = await cutout(north, blank(), "image/png");
  const done = await Promise.all([north, south].flatMap((one) => Array.from({ length: 6 }, () => cutout(one, bottle(), "image/jpeg"))));
  await Promise.all([taskEnded(north, failed), ...done.map((id, index) => taskEnded(index < 6 ? north : south, id))]);
  const stock = await runJob(north, "nightly stock", "/ok");
  const broken = await runJob(north, "price list", "/fail", 9);
  await runJob(south, "sales report", "/fail");
  for (const body of [{ service: "copywriting", input: { text: "White linen shirt, loose fit" } }, { service: "title", input: { text: "White linen shirt, loose fit" } }])
    await request("POST", "/generations", { token: north.accessToken, body: { ...body, params: {} }, key: crypto.randomUUID() });
  const texts = () => request<{ items: { generationId: string; status: string; service: string }[] }>("GET", "/generations", { token: north.accessToken });
  const { items } = await until(texts, (found) => found.items.every((one) => ["COMPLETED", "FAILED"].includes(one.status)), 4 * LONG_MS);
  const textId = items.find((one) => one.service === "copywriting")!.generationId;
  await until(() => request<{ attempt: number }>("GET", `/runs/${broken.runId}`, { token: north.accessToken }), (run) => run.attempt >= 3);
  await asAdmin("POST", "/ops/lanes/vip_short/pause", { reason: "driver update" });
  const waiting = await cutout(north, bottle(), "image/jpeg");
  const order = await request<{ orderId: string }>("POST", "/orders", { token: north.accessToken, body: { packageId: "starter", channel: "native" }, key: crypto.randomUUID() });
  expect(order.orderId).toBeTruthy();

  const operations = { overview: "", charts: "charts", "charts-jobs": "charts?board=jobs", tasks: "tasks", waiting: `tasks/${waiting}`, failed: `tasks/${failed}`, runs: "runs", texts: "texts", lanes: "lanes", workers: "workers", shares: "shares", "dead-letters": "dead-letters", checks: "checks", tenants: "tenants", tenant: `tenants/${north.tenantId}`, audit: "audit", settings: "settings", cache: "settings?part=cache", dictionaries: "settings?part=dictionaries" };
  const own = { jobs: "/jobs", "new-job": "/jobs/new", job: `/jobs/${stock.jobId}`, run: `/jobs/runs/${broken.runId}`, text: "/text", "a-text": `/text/${textId}` };
  try {
    for (const [mode, options, language, theme] of MODES) {
      const shoot = async (page: Page, name: string, path: string) => {
        if (!wanted(`${name}.${mode}`)) return;
        await page.goto("about:blank"); // else the page before stays until the parts of this one are loaded
        await page.goto(address(path));
        await settled(page);
        if (name === "text") {
          await page.locator(".sample").last().click();
          await page.locator(".previews img").waitFor();
          await page.locator("textarea").first().fill(language === "zh" ? "陶瓷，250 毫升，适合浓缩咖啡" : "Ceramic, 250 ml, for espresso and cappuccino");
        }
        await page.waitForLoadState("networkidle").catch(() => undefined);
        await page.screenshot({ path: `${folder}/${name}.${mode}.png`, fullPage: true });
      };
      const platform = await signedIn(await operator(), "/ops", options, language, theme);
      for (const [name, path] of Object.entries(operations)) await shoot(platform, `ops-${name}`, path ? `/ops/${path}` : "/ops");
      await platform.context().close();
      const page = await signedIn(north, "/text", options, language, theme);
      for (const [name, path] of Object.entries(own)) await shoot(page, name, path);
      await page.context().close();
    }
  } finally {
    await asAdmin("POST", "/ops/lanes/vip_short/resume");
    await request("POST", `/runs/${broken.runId}/terminate`, { token: north.accessToken }).catch(() => undefined);
    await receiver.stop();
    await close();
  }
});
