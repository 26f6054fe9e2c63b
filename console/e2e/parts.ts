import { expect } from "vitest";
import type { Page } from "playwright-core";

export const start = (page: Page) => page.getByRole("button", { name: "Start", exact: true });

/** Submit the open form and return the id of its task. */
export async function submit(page: Page): Promise<string> {
  await page.getByTestId("wait").waitFor();
  await start(page).click();
  await page.waitForURL(/#\/tasks\//);
  return taskId(page);
}

export const taskId = (page: Page): string => /tasks\/(\w+)/.exec(page.url())![1]!;

export async function completed(page: Page, state: RegExp = /Completed/): Promise<void> {
  await page.locator(".page-head .tag").filter({ hasText: state }).waitFor({ timeout: 50_000 });
  await page.locator(".compare img").first().waitFor();
}

/** Whether the picture that is shown has loaded. */
export async function isShown(page: Page): Promise<void> {
  await expect.poll(() => page.locator(".compare img").first().evaluate((image: HTMLImageElement) => image.complete && image.naturalWidth > 0), { timeout: 10_000 }).toBe(true);
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
