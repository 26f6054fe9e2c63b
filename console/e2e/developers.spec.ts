import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { promisify } from "node:util";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { address, close, faults, request, shop, signedIn, stack } from "./harness";
import { completed, hasFocus, press, pressItem, tabTo, type } from "./parts";

afterEach(() => {
  expect(faults.splice(0)).toEqual([]);
});
afterAll(close);

/** The only address of this machine that the stack may call. */
const PORT = Number(process.env.ARTIWAY_RECEIVER_PORT ?? 0);

interface Received {
  headers: IncomingHttpHeaders;
  body: string;
}

/** A shop's own server, that keeps what is delivered to it. */
async function receiver(): Promise<{ received: Received[]; stop: () => Promise<void> }> {
  const received: Received[] = [];
  const server = createServer((incoming, answer) => {
    let body = "";
    incoming.on("data", (part: Buffer) => (body += part.toString()));
    incoming.on("end", () => {
      received.push({ headers: incoming.headers, body });
      answer.writeHead(200).end("thanks");
    });
  });
  await new Promise<void>((resolve) => server.listen(PORT, "127.0.0.1", resolve));
  return { received, stop: () => new Promise((resolve) => (server.close(() => resolve()), server.closeAllConnections())) };
}

const isGenuine = (secret: string, { headers, body }: Received): boolean => {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const wanted = createHmac("sha256", key).update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`).digest("base64");
  return String(headers["webhook-signature"]).split(" ").includes(`v1,${wanted}`);
};

describe("developers, with the keyboard alone", () => {
  it("makes a key, starts a task with the copied curl, and revokes the key", async () => {
    const page = await signedIn(await shop({ points: 50 }), "/developers");
    const dialog = page.getByRole("dialog");
    await press(page, page.getByRole("button", { name: "New API key" }));
    await tabTo(page, dialog.getByLabel("Name", { exact: true }));
    await page.keyboard.press("Enter");
    await dialog.getByText("Please fill this in.").waitFor();
    await type(page, dialog.getByLabel("Name", { exact: true }), "server");
    await page.keyboard.press("Enter");
    const key = (await page.getByTestId("secret").textContent())!.trim();
    await hasFocus(page);

    await page.goto(address("/studio/cutout?sample=bottle"));
    await page.getByTestId("wait").waitFor();
    await press(page, page.getByRole("button", { name: "API" }));
    await pressItem(page, "Copy as curl");
    await page.getByText("Copied.").waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    const run = () => promisify(execFile)("bash", ["-c", command], { env: { ...process.env, ARTIWAY_KEY: key } });
    const { taskId } = JSON.parse((await run()).stdout) as { taskId: string };
    // The copied text starts one task, however often it runs.
    expect(JSON.parse((await run()).stdout)).toMatchObject({ taskId });
    await page.goto(address(`/tasks/${taskId}`));
    await completed(page);

    await page.goto(address("/developers"));
    await press(page, page.getByRole("button", { name: "Revoke server" }));
    expect(await page.getByTestId("secret").count()).toBe(0);
    await dialog.getByText("Programs that use it are refused at once").waitFor();
    await press(page, dialog.getByRole("button", { name: "Revoke" }));
    await page.getByText("No keys yet").waitFor();
    await hasFocus(page);
    expect((await fetch(`${stack.apiUrl}/tasks`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(401);
    await page.context().close();
  });

  it.skipIf(!PORT)("adds a webhook, refuses a private one beside its field, sends a test and delivers it again", async () => {
    const who = await shop({ points: 0 });
    const page = await signedIn(who, "/developers/webhooks");
    const url = page.getByLabel("Address", { exact: true });
    await type(page, url, "http://10.0.0.8/hook");
    const refused = page.waitForResponse((one) => one.request().method() === "POST" && one.status() === 422);
    await page.keyboard.press("Enter");
    await refused;
    // While a form is sent, Enter does not send it again. An error of the pattern may be left from the typing.
    await page.locator(".ant-btn-loading").waitFor({ state: "detached" });
    await page.locator(".ant-form-item-explain-error").filter({ hasText: "not accepted" }).waitFor();
    expect(await url.inputValue()).toBe("http://10.0.0.8/hook");
    const target = `http://127.0.0.1:${PORT}/shop`;
    await type(page, url, target);
    await page.keyboard.press("Enter");
    const secret = (await page.getByTestId("secret").textContent())!.trim();
    const server = await receiver();
    try {
      await press(page, page.getByRole("button", { name: `Send a test ${target}` }));
      await expect.poll(() => server.received.length, { timeout: 60_000 }).toBe(1);
      expect(isGenuine(secret, server.received[0]!)).toBe(true);
      const table = page.getByRole("region", { name: "Deliveries", exact: true });
      await table.getByText("Delivered").waitFor();
      await press(page, table.getByRole("button", { name: /^Deliver again/ }));
      await expect.poll(() => server.received.length, { timeout: 60_000 }).toBe(2);
      expect(server.received[1]!.headers["webhook-id"]).toBe(server.received[0]!.headers["webhook-id"]);
    } finally {
      await server.stop();
    }
    // A server that is gone: the failure of an act stands beside it, here of a webhook that another tab deleted.
    const [hook] = (await request<{ items: { webhookId: string }[] }>("GET", "/webhooks", { token: who.accessToken })).items;
    await request("DELETE", `/webhooks/${hook!.webhookId}`, { token: who.accessToken });
    await press(page, page.getByRole("button", { name: `Send a test ${target}` }));
    await page.getByRole("region", { name: "Webhooks" }).getByRole("alert").waitFor();
    await hasFocus(page);
    await page.context().close();
  });
});
