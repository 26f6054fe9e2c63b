/** A QR code: bytes, correction level M, versions 1 to 6 (106 bytes), mask 0. Payment links are far shorter. */
const BLOCKS = [null, [10, 16], [16, 28], [26, 44], [18, 32, 32], [24, 43, 43], [16, 27, 27, 27, 27]]; // correction, data …
const FORMAT = "101010000010010"; // level M, mask 0
const SVG = "http://www.w3.org/2000/svg";

const EXP = new Uint8Array(510);
const LOG = new Uint8Array(256);
for (let power = 0, value = 1; power < 255; power += 1) {
  EXP[power] = EXP[power + 255] = value;
  LOG[value] = power;
  value = (value << 1) ^ (value & 128 ? 0x11d : 0);
}
const times = (a, b) => (a && b ? EXP[LOG[a] + LOG[b]] : 0);

/** Rows of booleans, or null for a text that does not fit. */
export function modules(text) {
  const bytes = new TextEncoder().encode(text);
  const version = BLOCKS.findIndex((sizes) => sizes && bytes.length + 2 <= sum(sizes.slice(1)));
  return version < 0 ? null : drawn(version, codewords(bytes, BLOCKS[version]));
}

/** An SVG picture; screen readers announce `label`. */
export function picture(text, label) {
  const rows = modules(text);
  if (!rows) return null;
  const size = rows.length + 8; // the quiet zone: four modules on each side
  const svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${size} ${size}`, class: "qr", role: "img", "aria-label": label }))
    svg.setAttribute(name, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + 4} ${y + 4}h1v1h-1z` : ""))).join(""));
  svg.append(path);
  return svg;
}

const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);

function codewords(bytes, [correction, ...sizes]) {
  const bits = "0100" + bytes.length.toString(2).padStart(8, "0") + [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("") + "0000";
  const data = bits.match(/.{8}/g).map((octet) => parseInt(octet, 2));
  for (let filler = 0xec; data.length < sum(sizes); filler ^= 0xec ^ 0x11) data.push(filler);
  let start = 0;
  const blocks = sizes.map((size) => data.slice(start, (start += size)));
  const checks = blocks.map((block) => remainder(block, correction));
  const woven = (parts) => Array.from({ length: Math.max(...parts.map((part) => part.length)) }, (_, place) => parts.map((part) => part[place])).flat();
  return [...woven(blocks), ...woven(checks)];
}

function remainder(data, degree) {
  let divisor = [1];
  for (let power = 0; power < degree; power += 1)
    divisor = [...divisor, 0].map((value, place) => value ^ times(divisor[place - 1] ?? 0, EXP[power]));
  const rest = [...data, ...new Array(degree).fill(0)];
  for (let place = 0; place < data.length; place += 1) {
    const factor = rest[place];
    divisor.forEach((value, offset) => (rest[place + offset] ^= times(value, factor)));
  }
  return rest.slice(data.length);
}

function drawn(version, words) {
  const size = 17 + 4 * version;
  const rows = Array.from({ length: size }, () => new Array(size).fill(null));
  const put = (x, y, isDark) => x >= 0 && y >= 0 && x < size && y < size && (rows[y][x] = Boolean(isDark));
  const square = (cx, cy, radius, rings) => {
    for (let dy = -radius; dy <= radius; dy += 1)
      for (let dx = -radius; dx <= radius; dx += 1) put(cx + dx, cy + dy, rings.includes(Math.max(Math.abs(dx), Math.abs(dy))));
  };
  for (let place = 0; place < size; place += 1) {
    put(6, place, place % 2 === 0);
    put(place, 6, place % 2 === 0);
  }
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) square(x, y, 4, [0, 1, 3]);
  if (version > 1) square(size - 7, size - 7, 2, [0, 2]);
  [...FORMAT].forEach((bit, place) => {
    const isDark = bit === "1";
    if (place < 6) put(place, 8, isDark);
    else if (place < 8) put(place + 1, 8, isDark);
    else if (place === 8) put(8, 7, isDark);
    else put(8, 14 - place, isDark);
    if (place < 7) put(8, size - 1 - place, isDark);
    else put(size - 15 + place, 8, isDark);
  });
  put(8, size - 8, true);
  const bits = words.map((word) => word.toString(2).padStart(8, "0")).join("");
  let taken = 0;
  for (let right = size - 1, isUp = true; right > 0; right -= 2, isUp = !isUp) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step += 1) {
      const y = isUp ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (rows[y][x] !== null) continue;
        rows[y][x] = (bits[taken] === "1") !== ((x + y) % 2 === 0);
        taken += 1;
      }
    }
  }
  return rows;
}
