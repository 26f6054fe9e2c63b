// pg-boss with jobs that do nothing: `node pg_boss.mjs <url> <count> <seconds>`; seconds 0: all due at one time.
import PgBoss from "pg-boss";

const [url, countText, secondsText] = process.argv.slice(2);
const count = Number(countText), seconds = Number(secondsText);
const CHUNK = 1000, BATCH = 500, WORKERS = 4, AHEAD_MS = 5000, LIMIT_MS = 600_000;

const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false });
boss.on("error", (error) => console.error(String(error)));
await boss.start();
await boss.createQueue("due");

const before = Date.now();
// The last row is stored before the first one is due.
const start = Date.now() + AHEAD_MS + count * 0.6;
for (let first = 0; first < count; first += CHUNK) {
  const rows = [];
  for (let n = first; n < Math.min(first + CHUNK, count); n++) {
    const due = start + (seconds ? (n * seconds * 1000) / count : 0);
    rows.push({ name: "due", data: { due }, startAfter: new Date(due).toISOString() });
  }
  await boss.insert(rows);
}
const insertMs = Date.now() - before;
const isLate = Date.now() > start;

const delays = [];
let last = 0;
for (let n = 0; n < WORKERS; n++) {
  await boss.work("due", { batchSize: BATCH, pollingIntervalSeconds: 0.5 }, async (jobs) => {
    const now = Date.now();
    for (const job of jobs) delays.push((now - job.data.due) / 1000);
    last = now;
  });
}
while (delays.length < count && Date.now() - start < LIMIT_MS) await new Promise((done) => setTimeout(done, 100));
// The handler's return completes a batch: one more moment for the last one.
await new Promise((done) => setTimeout(done, 500));
delays.sort((a, b) => a - b);
const rank = (q) => delays[Math.max(0, Math.ceil(delays.length * q) - 1)];
console.log(JSON.stringify({
  count: delays.length, insertMs, isLate, seconds: (last - start) / 1000,
  startDelay: { p50: rank(0.5), p95: rank(0.95), p99: rank(0.99), max: rank(1) },
}));
await boss.stop({ graceful: false });
process.exit(0);
