import { mkdirSync } from "node:fs";
import { test } from "vitest";
import { address, close, context, DESKTOP, operator, PHONE, shop, signedIn, type Shop } from "./harness";

/** Screenshots of every page: `SHOTS="FOLDER [name …]" npm run shots`. */
const [folder = "/tmp/shots", ...only] = (process.env.SHOTS ?? "").split(" ").filter(Boolean);
mkdirSync(folder, { recursive: true });
const PUBLIC = { login: "/login", register: "/register", forgot: "/forgot" };
const PAGES: Record<string, string> = { studio: "/", cutout: "/studio/cutout?sample=bottle", erase: "/studio/erase?sample=mug", model: "/studio/model_photo?sample=shirt", batch: "/studio/batch_cutout", library: "/library", wallet: "/wallet", orders: "/wallet/orders", usage: "/wallet/usage", ledger: "/wallet/ledger", team: "/team", text: "/text", jobs: "/jobs", "new-job": "/jobs/new", developers: "/developers", webhooks: "/developers/webhooks", samples: "/developers/samples", account: "/account" };
const OPERATIONS: Record<string, string> = Object.fromEntries(["", "charts", "tasks", "runs", "texts", "lanes", "workers", "shares", "dead-letters", "checks", "margins", "tenants", "audit", "settings"].map((name) => [`ops-${name || "overview"}`, `/ops/${name}`]));
const MODES = [
  ["desktop-en", DESKTOP, "en", "light"],
  ["phone-zh", PHONE, "zh", "light"],
  ["desktop-zh-dark", DESKTOP, "zh", "dark"],
  ["phone-en-dark", PHONE, "en", "dark"],
] as const;
const wanted = (name: string, mode: string) => only.length === 0 || only.some((one) => `${name}.${mode}`.includes(one));

test("screenshots", { timeout: 600_000 }, async () => {
  let who: Shop | null = null;
  for (const [mode, options, language, theme] of MODES) {
    for (const [name, path] of Object.entries(PUBLIC)) {
      if (!wanted(name, mode)) continue;
      const page = await (await context({ ...options, colorScheme: theme }, language)).newPage();
      await page.goto(address(path));
      await page.locator("h1").waitFor();
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${folder}/${name}.${mode}.png` });
      await page.context().close();
    }
    const operations = Object.entries(OPERATIONS).filter(([name]) => wanted(name, mode));
    if (operations.length) {
      const page = await signedIn(await operator(), "/ops", options, language, theme);
      for (const [name, path] of operations) {
        await page.goto(address(path));
        await page.waitForTimeout(1500);
        await page.screenshot({ path: `${folder}/${name}.${mode}.png`, fullPage: true });
      }
      await page.context().close();
    }
    const names = Object.entries(PAGES).filter(([name]) => wanted(name, mode));
    const hasTask = wanted("task", mode);
    if (!names.length && !hasTask) continue;
    who ??= await shop({ tier: "vip" });
    const page = await signedIn(who, "/", options, language, theme);
    for (const [name, path] of names) {
      await page.goto(address(path));
      await page.waitForTimeout(1200);
      await page.screenshot({ path: `${folder}/${name}.${mode}.png`, fullPage: name !== "studio" });
    }
    if (hasTask) {
      await page.goto(address("/studio/model_photo?sample=shirt"));
      await page.getByTestId("wait").waitFor();
      await page.getByRole("button", { name: /^(Start|开始制作)$/ }).click();
      await page.waitForURL(/tasks/);
      await page.waitForTimeout(700);
      await page.screenshot({ path: `${folder}/task-live.${mode}.png`, fullPage: true });
      await page.locator(".compare img").first().waitFor();
      await page.waitForTimeout(2500);
      await page.screenshot({ path: `${folder}/task.${mode}.png`, fullPage: true });
    }
    await page.context().close();
  }
  await close();
});
