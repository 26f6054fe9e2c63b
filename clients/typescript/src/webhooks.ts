// Verify a delivery (Standard Webhooks) with the platform's Web Crypto: Node, browsers, workers at the edge.

export class InvalidSignature extends Error {
  override name = "InvalidSignature";
}

const bytes = (base64: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));

/**
 * The delivery's content. `body` as it was received: parsing and writing it again changes it.
 * A delivery may arrive twice: drop a `webhook-id` that you have seen.
 */
export async function verify(
  secret: string,
  headers: Record<string, string>,
  body: string,
  { toleranceSeconds = 300, now = Date.now() / 1000 } = {},
): Promise<Record<string, unknown>> {
  const given = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  const [id, at, signatures] = ["id", "timestamp", "signature"].map((name) => given[`webhook-${name}`]);
  if (!id || !at || !signatures || !/^\d+$/.test(at)) throw new InvalidSignature("a header is missing or malformed");
  const age = Math.abs(now - Number(at));
  if (age > toleranceSeconds) throw new InvalidSignature(`the timestamp is ${Math.round(age)} s off`);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes(secret.replace(/^whsec_/, "")), algorithm, false, ["verify"]);
  const signed = new TextEncoder().encode(`${id}.${at}.${body}`);
  for (const entry of signatures.split(" ")) {
    const [version, value] = entry.split(",");
    if (version === "v1" && value && (await crypto.subtle.verify("HMAC", key, bytes(value), signed))) {
      return JSON.parse(body) as Record<string, unknown>;
    }
  }
  throw new InvalidSignature("no signature matches");
}
