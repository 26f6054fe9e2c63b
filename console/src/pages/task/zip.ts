/** A ZIP file without compression: pictures are compressed already. */
export async function zip(files: readonly { name: string; blob: Blob }[]): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (const { name, blob } of files) {
    const data = new Uint8Array(await blob.arrayBuffer());
    const title = new TextEncoder().encode(name);
    const sum = crc32(data);
    const common = [20, 0x0800, 0, 0, 0x21]; // version, UTF-8 names, stored, time, date (1980-01-01)
    const head = bytes(30 + title.length);
    fill(head, [[4, 0x04034b50], ...common.map((value): [2, number] => [2, value]), [4, sum], [4, data.length], [4, data.length], [2, title.length], [2, 0]], title);
    const entry = bytes(46 + title.length);
    fill(entry, [[4, 0x02014b50], [2, 20], ...common.map((value): [2, number] => [2, value]), [4, sum], [4, data.length], [4, data.length], [2, title.length], [2, 0], [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]], title);
    parts.push(head, data);
    directory.push(entry);
    offset += head.length + data.length;
  }
  const size = directory.reduce((sum, entry) => sum + entry.length, 0);
  const end = bytes(22);
  fill(end, [[4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, offset], [2, 0]]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}

const bytes = (length: number) => new Uint8Array(new ArrayBuffer(length));

function fill(target: Uint8Array<ArrayBuffer>, values: [size: 2 | 4, value: number][], tail?: Uint8Array): void {
  const view = new DataView(target.buffer);
  let at = 0;
  for (const [size, value] of values) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  if (tail) target.set(tail, at);
}

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

export function crc32(data: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of data) value = (value >>> 8) ^ TABLE[(value ^ byte) & 255]!;
  return (value ^ 0xffffffff) >>> 0;
}
