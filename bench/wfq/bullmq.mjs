// BullMQ on the same Redis: `node bullmq.mjs <port> live <count> <chunk> <concurrency>` or `... latency <perSecond> <seconds>`.
import { Queue, Worker } from "bullmq";

const [port, mode, first, second, third] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const options = { removeOnComplete: true, removeOnFail: true };
const queue = new Queue("bench", { connection, defaultJobOptions: options });
await queue.waitUntilReady();

async function live(count, chunk, concurrency) {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const worker = new Worker("bench", async () => {}, { connection, concurrency });
  worker.on("completed", () => (++done === count ? finish() : undefined));
  await worker.waitUntilReady();
  const started = performance.now();
  for (let sent = 0; sent < count; sent += chunk) {
    await queue.addBulk(Array.from({ length: chunk }, (_, i) => ({ name: "n", data: { i: sent + i } })));
  }
  await finished;
  const seconds = (performance.now() - started) / 1000;
  await worker.close();
  return { perSecond: count / seconds };
}

// The first jobs meet a cold process, which is not what is compared.
async function warmUp(worker) {
  for (let i = 0; i < 200; i++) {
    const done = new Promise((resolve) => worker.once("completed", resolve));
    await queue.add("warm", { i });
    await done;
  }
}

async function latency(perSecond, seconds) {
  const total = perSecond * seconds;
  const latencies = [];
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const due = new Map();
  const worker = new Worker(
    "bench",
    async (job) => {
      if (job.name === "warm") return;
      latencies.push(performance.now() - due.get(job.data.i));
      if (latencies.length === total) finish();
    },
    { connection, concurrency: 50 },
  );
  await worker.waitUntilReady();
  await warmUp(worker);
  const started = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    while (sent < total && (performance.now() - started) * perSecond >= sent * 1000) {
      due.set(sent, started + (sent * 1000) / perSecond);
      queue.add("n", { i: sent++ });
    }
    if (sent === total) clearInterval(timer);
  }, 1);
  await finished;
  await worker.close();
  return { latencies };
}

const answer =
  mode === "live"
    ? await live(Number(first), Number(second), Number(third))
    : await latency(Number(first), Number(second));
await queue.close();
console.log(JSON.stringify(answer));
process.exit(0);
