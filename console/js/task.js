import { get, post, session } from "./api.js";
import { attempt, el, table, tag } from "./dom.js";
import { t } from "./i18n.js";

const POLL_MS = 2000;
const ENDED = new Set(["COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]);
const STATUS_STYLES = { COMPLETED: "good", PARTIAL: "warn", FAILED: "bad", CANCELLED: "warn" };
/** The uploaded pictures while this page is open: the API does not return inputs. */
const originals = new Map();
let watching = 0;

export const status = (word) => tag(t(`status_${word}`), STATUS_STYLES[word]);

export const remember = (taskId, file) => file && originals.set(taskId, URL.createObjectURL(file));

/** Follow a task: its WebSocket events trigger a read, and a slow poll covers missed events. */
export const watch = attempt(async (taskId, container, titles, ended) => {
  const turn = (watching += 1);
  let wake = () => {};
  let disconnect = () => {};
  const reasons = el("div");
  const shown = { reasons: false };
  try {
    for (let wasOpen = false; ; wasOpen = true) {
      const task = await get(`/tasks/${taskId}`);
      const isEnded = ENDED.has(task.status);
      if (turn !== watching) return;
      if (isEnded) reasons.replaceChildren();
      else if (shown.reasons) reasons.replaceChildren(await why(taskId));
      const run = attempt(async (action) => {
        await post(`/tasks/${taskId}/${action}`);
        wake();
        if (isEnded) watch(taskId, container, titles, ended);
      });
      const explain = attempt(async () => {
        shown.reasons = true;
        reasons.replaceChildren(await why(taskId));
      });
      container.replaceChildren(view(task, titles, { run, explain }), reasons);
      if (isEnded && wasOpen) ended();
      if (isEnded || !container.isConnected) return;
      if (!wasOpen) disconnect = listen((message) => message.taskId === taskId && wake());
      await new Promise((done) => {
        wake = done;
        setTimeout(done, POLL_MS);
      });
    }
  } finally {
    disconnect();
  }
});

/** Returns a function that disconnects. Browsers log an error if a connecting socket is closed, so it waits. */
function listen(onMessage) {
  const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws?token=${session.tokens.accessToken}`);
  socket.addEventListener("message", ({ data }) => onMessage(JSON.parse(data)));
  return () => {
    if (socket.readyState === WebSocket.CONNECTING) socket.addEventListener("open", () => socket.close());
    else socket.close();
  };
}

function view(task, titles, { run, explain }) {
  const isEnded = ENDED.has(task.status);
  const button = (text, onclick) => el("button", { class: "quiet", onclick }, text);
  return el("div", { class: "card task" },
    el("div", { class: "row" },
      el("strong", {}, titles.get(task.tool) ?? (task.name || t("flow"))), status(task.status), el("span", { class: "soft digits" }, `${task.progress} %`),
      !isEnded && button(t("cancel"), () => run("cancel")),
      !isEnded && button(t("why"), explain),
      (task.status === "FAILED" || task.status === "PARTIAL") && button(t("retry"), () => run("retry"))),
    el("div", { class: "dag", tabindex: 0, role: "group", "aria-label": t("steps") }, layers(task.nodes).map((layer) => el("div", {}, layer.map(step)))),
    task.error && el("p", { class: "minus" }, task.error.message),
    task.results.length > 0 && el("div", { class: "grid results" }, task.results.map((result, place) => picture(task.taskId, place, result))),
  );
}

const step = (node) => el("div", { class: `node ${node.status.toLowerCase()}`, title: node.error?.message },
  el("span", {}, node.name), el("span", { class: "soft" }, t(`status_${node.status}`)),
  el("progress", { max: 100, value: node.status === "COMPLETED" ? 100 : node.progress, "aria-label": node.name }));

/** Addresses of pictures expire while a page is open. */
const save = (taskId, place, { expiresAt }) => attempt(async (event) => {
  if (Date.now() < Date.parse(expiresAt)) return;
  event.preventDefault();
  location.assign((await get(`/tasks/${taskId}`)).results[place].downloadUrl);
});

/** The result, with a slider that shows the original over it. */
function picture(taskId, place, result) {
  const original = originals.get(taskId);
  const made = el("img", { src: result.url, alt: result.name, width: result.width, height: result.height });
  const link = el("figcaption", {}, el("a", { href: result.downloadUrl, onclick: save(taskId, place, result) }, `${result.name} · ${result.width}×${result.height}`));
  if (!original) return el("figure", {}, el("div", { class: "compare" }, made), link);
  const before = el("img", { src: original, alt: t("original"), class: "before" });
  const slide = ({ target }) => before.style.setProperty("clip-path", `inset(0 ${100 - target.value}% 0 0)`);
  return el("figure", {},
    el("div", { class: "compare" }, made, before),
    el("input", { type: "range", min: 0, max: 100, value: 0, "aria-label": `${t("original")} / ${result.name}`, oninput: slide }),
    link);
}

/** Nodes by their distance from the start: nodes of one layer can run in parallel. */
function layers(nodes) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const depth = new Map();
  const of = (node) => {
    if (!depth.has(node.name)) depth.set(node.name, Math.max(-1, ...node.dependsOn.map((name) => of(byName.get(name)))) + 1);
    return depth.get(node.name);
  };
  const made = [];
  for (const node of nodes) (made[of(node)] ??= []).push(node);
  return made;
}

async function why(taskId) {
  const { nodes } = await get(`/tasks/${taskId}/why`);
  return table(
    [
      { title: t("step"), cell: (node) => node.name },
      { title: t("waitsFor"), cell: (node) => el("span", { title: node.detail }, t(`waiting_${node.waitingFor}`)) },
      { title: t("before"), number: true, cell: (node) => node.position ?? "–" },
      { title: t("startsIn"), number: true, cell: (node) => (node.etaSeconds === null ? "–" : `${node.etaSeconds} s`) },
    ],
    nodes, t("nothing"),
  );
}
