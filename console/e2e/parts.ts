import { expect } from "vitest";
import type { Locator, Page, Request } from "playwright-core";
import { stack } from "./harness";

export const start = (page: Page) => page.getByRole("button", { name: /^(Start|开始制作)$/ });

/** Submit the open form and return the id of its task. */
export async function submit(page: Page): Promise<string> {
  await page.getByTestId("wait").waitFor();
  await start(page).click();
  await page.waitForURL(/#\/tasks\//);
  return taskId(page);
}

export const taskId = (page: Page): string => /tasks\/(\w+)/.exec(page.url())![1]!;

export async function completed(page: Page, state: RegExp = /Completed/): Promise<void> {
  await page.locator(".page-head .tag").filter({ hasText: state }).waitFor({ timeout: 120_000 });
  await page.locator(".compare img").first().waitFor();
}

/** Whether the picture that is shown has loaded. */
export async function isShown(page: Page): Promise<void> {
  await expect.poll(() => page.locator(".compare img").first().evaluate((image: HTMLImageElement) => image.complete && image.naturalWidth > 0), { timeout: 30_000 }).toBe(true);
}

/** The requests to the API that a page sends, without pictures and refreshes. */
export function requests(page: Page): string[] {
  const seen: string[] = [];
  page.on("request", (one) => {
    const { pathname } = new URL(one.url());
    if (pathname.startsWith("/api/v1/")) seen.push(`${one.method()} ${pathname.slice(7)}`);
  });
  return seen;
}

/** The page has what it loads at first: its title, nothing that waits, and no request for the time of a few frames. */
export async function settled(page: Page): Promise<void> {
  await page.locator("main h1").first().waitFor();
  await page.waitForFunction(() => ![...document.querySelectorAll("[role=status]")].some((one) => /^(Loading|加载中)$/.test(one.textContent.trim())));
  await quiet(page);
}

/** No request has started or ended for a moment. A page that was opened before `quiet` watches it from then on. */
export async function quiet(page: Page, forMs = 250): Promise<void> {
  const traffic = watched.get(page) ?? watch(page);
  await expect.poll(() => traffic.open === 0 && Date.now() - traffic.at >= forMs, { timeout: 60_000, interval: 50 }).toBe(true);
}

interface Traffic {
  open: number;
  at: number;
}
const watched = new WeakMap<Page, Traffic>();

/** Count the requests of a page that are under way, without those of streams. */
export function watch(page: Page): Traffic {
  const traffic: Traffic = { open: 0, at: Date.now() };
  const seen = new Set<Request>();
  watched.set(page, traffic);
  page.on("request", (one) => {
    if (one.resourceType() === "eventsource" || one.resourceType() === "websocket") return;
    seen.add(one);
    Object.assign(traffic, { open: seen.size, at: Date.now() });
  });
  const ended = (one: Request) => {
    seen.delete(one);
    Object.assign(traffic, { open: seen.size, at: Date.now() });
  };
  page.on("requestfinished", ended);
  page.on("requestfailed", ended);
  return traffic;
}

/** No page is wider than the screen. A phone would show a wider one smaller, and call it as wide as the window. */
export async function isWithin(page: Page, name: string): Promise<void> {
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  expect([name, Math.max(width, page.viewportSize()!.width)]).toEqual([name, page.viewportSize()!.width]);
}

// ------------------------------------------------------------------ the keyboard alone

const isFocused = (target: Locator) => target.evaluate((one) => one === document.activeElement || one.contains(document.activeElement));

/** Go to an element with Tab, or with Shift+Tab where it is before the focus. */
export async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor();
  for (let steps = 0; steps < 150; steps += 1) {
    if (await isFocused(target)) return;
    const isBefore = await target.evaluate((one) => document.activeElement !== document.body && Boolean(one.compareDocumentPosition(document.activeElement!) & Node.DOCUMENT_POSITION_FOLLOWING));
    await page.keyboard.press(isBefore ? "Shift+Tab" : "Tab");
  }
  throw new Error(`the keyboard does not reach ${String(target)} from ${await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 300))}`);
}

/** Press a button or follow a link with the keyboard. Afterwards something has the focus. */
export async function press(page: Page, target: Locator): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press("Enter");
  await hasFocus(page);
}

/** Choose an item of the menu that is open, with the keyboard. */
export async function pressItem(page: Page, name: string): Promise<void> {
  const item = page.getByRole("menuitem", { name, exact: true });
  await item.waitFor();
  // The menu takes the focus when it has opened.
  await expect.poll(() => page.evaluate(() => document.activeElement?.closest("[role=menu]") !== null), { timeout: 30_000 }).toBe(true);
  for (let steps = 0; steps < 40 && !(await isFocused(item)); steps += 1) await page.keyboard.press("ArrowDown");
  if (!(await isFocused(item))) throw new Error(`the keyboard does not reach ${name}`);
  await page.keyboard.press("Enter");
}

/** Replace the text of a field with the keyboard. */
export async function type(page: Page, target: Locator, text: string): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press("Control+A");
  await page.keyboard.type(text);
}

/** The focus is on an element, and not lost to the document. */
export async function hasFocus(page: Page): Promise<void> {
  await expect.poll(() => page.evaluate(() => document.activeElement !== null && document.activeElement !== document.body), { timeout: 30_000 }).toBe(true);
}

// ------------------------------------------------------------------ the mailbox of the one-machine stack

interface Mail {
  to: string[];
  text: string;
}

/** The link in the newest mail to an address. */
export async function linkFor(to: string): Promise<string> {
  let found: string | undefined;
  await expect
    .poll(
      async () => {
        const answer = await fetch(`${new URL(stack.apiUrl).origin}/_local/mailbox.json`);
        const { items } = (await answer.json()) as { items: Mail[] };
        found = /https?:\/\/\S+#\/\S+/.exec(items.find((mail) => mail.to.includes(to))?.text ?? "")?.[0];
        return found !== undefined;
      },
      { timeout: 60_000, interval: 300 },
    )
    .toBe(true);
  return found!;
}
