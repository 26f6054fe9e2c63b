import { api, call } from "@/api/client";
import { OwnFault } from "@/api/errors";

/** A picture that the user chose, with its upload. */
export interface Picture {
  id: string;
  name: string;
  /** For <img>: an object URL, or the address of a picture that the platform stores. */
  url: string;
  width: number;
  height: number;
  upload: Promise<string>;
}

/** A file that cannot be used; the text says why. */
export class PictureFault extends OwnFault {}

export const LIMITS = { bytes: 20_000_000, pixels: 40_000_000, side: 12_000 };
type ContentType = "image/png" | "image/jpeg" | "image/webp";

/** The type by the first bytes: the ending of a name is often wrong. */
export function contentTypeOf(head: Uint8Array): ContentType | null {
  const text = String.fromCharCode(...head.subarray(0, 12));
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (text.startsWith("RIFF") && text.slice(8, 12) === "WEBP") return "image/webp";
  return null;
}

/** Check a file in the browser, then upload it straight to the bucket. Throws PictureFault. */
export async function takePicture(file: Blob, name: string): Promise<Picture> {
  if (file.size === 0) throw new PictureFault("pictureEmpty", { name });
  const type = contentTypeOf(new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  const url = URL.createObjectURL(file);
  const size = await measure(url).catch(() => null);
  if (!size) {
    URL.revokeObjectURL(url);
    throw new PictureFault("pictureUnreadable", { name });
  }
  if (size.width * size.height > LIMITS.pixels || Math.max(size.width, size.height) > LIMITS.side) {
    URL.revokeObjectURL(url);
    throw new PictureFault("picturePixels", { name, width: size.width, height: size.height });
  }
  // A kind that the browser reads and the platform does not, such as BMP or AVIF.
  const sent = type ? new Blob([file], { type }) : await asPng(url, size);
  if (sent.size > LIMITS.bytes) throw new PictureFault("pictureBytes", { name, megabytes: (sent.size / 1e6).toFixed(1) });
  const upload = send(sent, type ?? "image/png");
  upload.catch(() => undefined); // whoever waits for it sees the fault
  return { id: crypto.randomUUID(), name, url, ...size, upload };
}

async function measure(url: string): Promise<{ width: number; height: number }> {
  const image = new Image();
  image.src = url;
  await image.decode();
  return { width: image.naturalWidth, height: image.naturalHeight };
}

async function asPng(url: string, { width, height }: { width: number; height: number }): Promise<Blob> {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d")!.drawImage(image, 0, 0);
  return toPng(canvas);
}

export function toPng(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new PictureFault("errorUnknown"))), "image/png"));
}

export async function send(blob: Blob, contentType: ContentType): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const ticket = await call(api.POST("/api/v1/uploads", { body: { contentType, bytes: blob.size } }));
    // The browser sets the content length; scripts may not.
    const headers = Object.entries(ticket.headers).filter(([name]) => name.toLowerCase() !== "content-length");
    try {
      const answer = await fetch(ticket.url, { method: ticket.method, headers, body: blob });
      if (answer.ok) return ticket.inputId;
    } catch {
      if (!navigator.onLine) await new Promise((resolve) => window.addEventListener("online", resolve, { once: true }));
    }
    if (attempt >= 3) throw new PictureFault("pictureUpload");
  }
}

/** A picture that the platform stores already and that a task may use again. */
export const storedPicture = (inputId: string, url: string, width: number, height: number, name: string): Picture => ({
  id: inputId,
  name,
  url,
  width,
  height,
  upload: Promise.resolve(inputId),
});
