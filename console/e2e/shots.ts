import { mkdirSync } from "node:fs";
import { test } from "vitest";
import { address, close, context, DESKTOP, operator, PHONE, shop, signedIn, type Shop } from "./harness";
import { furnish, type Furnished } from "./furnish";
import { settled, submit } from "./parts";

/** Screenshots of every page: `SHOTS="FOLDER [name …]" npm run shots`. */
const [folder = "/tmp/shots", ...only] = (process.env.SHOTS ?? "").split(" ").filter(Boolean);
mkdirSync(folder, { recursive: true });
const PUBLIC = { login: "/login", register: "/register", forgot: "/forgot", reset: "/reset?token=rst_x", invitation: "/invitation?token=inv_x" };
const pages = (has: Furnished): Record<string, string> => ({
  studio: "/",
  cutout: "/studio/cutout?sample=bottle",
  erase: "/studio/erase?sample=mug",
  scene: "/studio/scene?sample=mug",
  model: "/studio/model_photo?sample=shirt",
  batch: "/studio/batch_cutout",
  library: "/library",
  "library-none": "/library?status=CANCELLED",
  failed: `/tasks/${has.failed}`,
  wallet: "/wallet",
  orders: "/wallet/orders",
  usage: "/wallet/usage",
  ledger: "/wallet/ledger",
  pay: `/wallet/pay/${has.open}`,
  receipt: `/wallet/receipts/${has.paid}`,
  team: "/team",
  text: "/text",
  jobs: "/jobs",
  "new-job": "/jobs/new",
  developers: "/developers",
  webhooks: "/developers/webhooks",
  samples: "/developers/samples",
  account: "/account",
  "not-found": "/no-such-page",
});
const OPERATIONS: Record<string, string> = Object.fromEntries(["", "charts", "tasks", "runs", "texts", "lanes", "workers", "shares", "dead-letters", "checks", "margins", "tenants", "audit", "settings"].map((name) => [`ops-${name || "overview"}`, `/ops/${name}`]));
const MODES = [
  ["desktop-en", DESKTOP, "en", "light"],
  ["phone-zh", PHONE, "zh", "light"],
  ["desktop-zh-dark", DESKTOP, "zh", "dark"],
  ["phone-en-dark", PHONE, "en", "dark"],
] as const;
const wanted = (name: string, mode: string) => only.length === 0 || only.some((one) => `${name}.${mode}`.includes(one));

test("screenshots", { timeout: 1_200_000 }, async () => {
  const who: Shop = await shop({ tier: "vip" });
  const has = await furnish(who);
  for (const [mode, options, language, theme] of MODES) {
    for (const [name, path] of Object.entries(PUBLIC)) {
      if (!wanted(name, mode)) continue;
      const page = await (await context({ ...options, colorScheme: theme }, language)).newPage();
      await page.goto(address(path));
      await settled(page);
      await page.screenshot({ path: `${folder}/${name}.${mode}.png` });
      await page.context().close();
    }
    const operations = Object.entries(OPERATIONS).filter(([name]) => wanted(name, mode));
    if (operations.length) {
      const page = await signedIn(await operator(), "/ops", options, language, theme);
      for (const [name, path] of operations) {
        await page.goto(address(path));
        await settled(page);
        await page.waitForTimeout(500);
        await page.screenshot({ path: `${folder}/${name}.${mode}.png`, fullPage: true });
      }
      await page.context().close();
    }
    const names = Object.entries(pages(has)).filter(([name]) => wanted(name, mode));
    const hasTask = wanted("task", mode);
    if (!names.length && !hasTask) continue;
    const page = await signedIn(who, "/", options, language, theme);
    for (const [name, path] of names) {
      await page.goto(address(path));
      if (path.includes("sample=")) await page.locator(".previews img, .mask-area img").first().waitFor();
      await settled(page);
      await page.waitForTimeout(500);
      await page.screenshot({ path: `${folder}/${name}.${mode}.png`, fullPage: name !== "studio" });
    }
    if (hasTask) {
      await page.goto(address("/studio/model_photo?sample=shirt"));
      await page.locator(".previews img").waitFor();
      await page.getByRole("spinbutton").first().fill("3");
      await submit(page);
      await page.locator(".dag-node.completed").first().waitFor();
      await page.screenshot({ path: `${folder}/task-live.${mode}.png`, fullPage: true });
      await page.locator(".page-head .tag").filter({ hasText: /Completed|已完成/ }).waitFor();
      await page.locator(".strip button").nth(2).waitFor();
      await settled(page);
      await page.screenshot({ path: `${folder}/task.${mode}.png`, fullPage: true });
      await page.locator(".dag").scrollIntoViewIfNeeded();
      await page.screenshot({ path: `${folder}/task-steps.${mode}.png` });
    }
    await page.context().close();
  }
  await close();
});
