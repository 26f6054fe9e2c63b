import { get, post, session } from "./api.js";
import { attempt, el, table, tag } from "./dom.js";
import { t } from "./i18n.js";

const POLL_MS = 2000;
const ENDED = new Set(["COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]);
const MOODS = { COMPLETED: "good", PARTIAL: "warn", FAILED: "bad", CANCELLED: "warn" };
/** What was put in, as long as this page lives: the platform does not hand inputs out again. */
const originals = new Map();
let watching = 0;

export const status = (word) => tag(t(`status_${word}`), MOODS[word]);

export const remember = (taskId, file) => file && originals.set(taskId, URL.createObjectURL(file));

/** Follow a task: its WebSocket events say when to look, and a slow poll covers what they miss. */
export const watch = attempt(async (taskId, place, titles, ended) => {
  const turn = (watching += 1);
  let wake = () => {};
  let hangUp = () => {};
  const reasons = el("div");
  const asked = { why: false };
  try {
    for (let wasOpen = false; ; wasOpen = true) {
      const task = await get(`/tasks/${taskId}`);
      const isOver = ENDED.has(task.status);
      if (turn !== watching) return;
      if (isOver) reasons.replaceChildren();
      else if (asked.why) reasons.replaceChildren(await why(taskId));
      const again = attempt(async (act) => {
        await post(`/tasks/${taskId}/${act}`);
        wake();
        if (isOver) watch(taskId, place, titles, ended);
      });
      const explain = attempt(async () => {
        asked.why = true;
        reasons.replaceChildren(await why(taskId));
      });
      place.replaceChildren(view(task, titles, { again, explain }), reasons);
      if (isOver && wasOpen) ended();
      if (isOver || !place.isConnected) return;
      if (!wasOpen) hangUp = listen((message) => message.taskId === taskId && wake());
      await new Promise((done) => {
        wake = done;
        setTimeout(done, POLL_MS);
      });
    }
  } finally {
    hangUp();
  }
});

/** Returns how to hang up. A socket that is still being opened is closed once it is: sooner is an error to browsers. */
function listen(hear) {
  const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws?token=${session.tokens.accessToken}`);
  socket.addEventListener("message", ({ data }) => hear(JSON.parse(data)));
  return () => {
    if (socket.readyState === WebSocket.CONNECTING) socket.addEventListener("open", () => socket.close());
    else socket.close();
  };
}

function view(task, titles, { again, explain }) {
  const isOver = ENDED.has(task.status);
  const button = (text, onclick) => el("button", { class: "quiet", onclick }, text);
  return el("div", { class: "card task" },
    el("div", { class: "row" },
      el("strong", {}, titles.get(task.tool) ?? (task.name || t("flow"))), status(task.status), el("span", { class: "soft digits" }, `${task.progress} %`),
      !isOver && button(t("cancel"), () => again("cancel")),
      !isOver && button(t("why"), explain),
      (task.status === "FAILED" || task.status === "PARTIAL") && button(t("retry"), () => again("retry"))),
    el("div", { class: "dag", tabindex: 0, role: "group", "aria-label": t("steps") }, layers(task.nodes).map((layer) => el("div", {}, layer.map(step)))),
    task.error && el("p", { class: "minus" }, task.error.message),
    task.results.length > 0 && el("div", { class: "grid results" }, task.results.map((result) => picture(result, originals.get(task.taskId)))),
  );
}

const step = (node) => el("div", { class: `node ${node.status.toLowerCase()}`, title: node.error?.message },
  el("span", {}, node.name), el("span", { class: "soft" }, t(`status_${node.status}`)),
  el("progress", { max: 100, value: node.status === "COMPLETED" ? 100 : node.progress, "aria-label": node.name }));

/** The result, and the original under it as far as the slider is drawn. */
function picture(result, original) {
  const made = el("img", { src: result.url, alt: result.name, width: result.width, height: result.height });
  const link = el("figcaption", {}, el("a", { href: result.url, download: result.name, target: "_blank", rel: "noopener" }, `${result.name} · ${result.width}×${result.height}`));
  if (!original) return el("figure", {}, el("div", { class: "compare" }, made), link);
  const before = el("img", { src: original, alt: t("original"), class: "before" });
  const slide = ({ target }) => before.style.setProperty("clip-path", `inset(0 ${100 - target.value}% 0 0)`);
  return el("figure", {},
    el("div", { class: "compare" }, made, before),
    el("input", { type: "range", min: 0, max: 100, value: 0, "aria-label": `${t("original")} / ${result.name}`, oninput: slide }),
    link);
}

/** Nodes by how far they are from the entry: what stands side by side can run side by side. */
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
