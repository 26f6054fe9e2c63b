import { get, patch, post } from "./api.js";
import { audit, checks } from "./checks.js";
import { deadLetters } from "./deadletters.js";
import { attempt, el, form, table, tag } from "./dom.js";
import { fairness } from "./fairness.js";
import { number, t, time } from "./i18n.js";

/** Section → its title and the function that draws it. */
const SECTIONS = {
  "": ["lanes", overview],
  fairness: ["fairness", fairness],
  dlq: ["deadLetters", deadLetters],
  checks: ["checks", checks],
  audit: ["audit", audit],
};

export async function operations(me, redraw, section = "") {
  const chosen = section in SECTIONS ? section : "";
  return el("section", {},
    el("h1", {}, t("ops")),
    el("nav", { class: "tabs", "aria-label": t("ops") }, Object.entries(SECTIONS).map(([name, [title]]) =>
      el("a", { href: name ? `#/ops/${name}` : "#/ops", "aria-current": name === chosen && "page" }, t(title)))),
    await SECTIONS[chosen][1](me, redraw),
  );
}

async function overview(me, redraw) {
  const [health, lanes, workers] = await Promise.all([get("/ops/health"), get("/ops/lanes"), get("/ops/workers")]);
  return el("div", {},
    readings(health),
    el("h2", {}, t("lanes")), laneTable(lanes.items, me.permissions.includes("ops.write"), redraw),
    el("h2", {}, t("workers")), workerTable(workers.items),
  );
}

function readings({ state, checks, readings: found }) {
  const figure = (title, value, note, isOk) => el("div", { class: "card" },
    el("div", { class: "soft" }, title), el("div", { class: `figure small ${isOk ? "" : "minus"}` }, value), el("div", { class: "soft" }, note));
  return el("div", { class: "grid tight" },
    figure(t("guard"), t(`state_${state}`), Object.entries(checks).map(([name, answer]) => `${name} ${t(`check_${answer}`)}`).join(" · "), state === "NORMAL"),
    found.map(({ name, value, limit, unit, ok }) => figure(
      t(`reading_${name}`), value === null ? "–" : `${number(Math.round(value * 10) / 10)} ${t(`unit_${unit}`, unit)}`,
      `${t("limit")} ${number(limit)} ${t(`unit_${unit}`, unit)}`, ok)),
  );
}

function laneTable(lanes, mayWrite, redraw) {
  const run = (action) => attempt(async () => {
    await action();
    redraw();
  });
  return table(
    [
      { title: t("lane"), cell: (lane) => lane.lane },
      { title: t("status"), cell: (lane) => tag(t(lane.paused ? "paused" : "open"), lane.paused ? "warn" : "good") },
      { title: t("depth"), number: true, cell: (lane) => number(lane.depth) },
      { title: t("running"), number: true, cell: (lane) => number(lane.running) },
      { title: t("shareCap"), number: true, cell: (lane) => (lane.sharePercent === null ? "–" : `${lane.sharePercent} %`) },
      { title: t("limit"), number: true, cell: (lane) => number(lane.limit) },
      { title: t("parallelism"), number: true, cell: (lane) => (mayWrite ? parallelism(lane, run) : lane.parallelism ?? "–") },
      ...(mayWrite ? [{ title: "", cell: (lane) => el("button", { class: "quiet", "aria-label": `${t(lane.paused ? "resume" : "pause")} ${lane.lane}`,
        onclick: run(() => post(`/ops/lanes/${lane.lane}/${lane.paused ? "resume" : "pause"}`)) }, t(lane.paused ? "resume" : "pause")) }] : []),
    ],
    lanes, t("nothing"),
  );
}

const parallelism = (lane, run) =>
  form({ class: "inline" }, (values) => run(() => patch(`/ops/lanes/${lane.lane}`, { parallelism: values.parallelism === "" ? null : Number(values.parallelism) }))(),
    el("input", { name: "parallelism", type: "number", min: 0, max: 1000000, placeholder: "∞",
      "aria-label": `${t("parallelism")} ${lane.lane}`, value: lane.parallelism ?? "" }),
    el("button", { class: "quiet" }, t("set")));

function workerTable(workers) {
  return table(
    [
      { title: t("worker"), cell: (worker) => worker.workerId },
      { title: t("pool"), cell: (worker) => worker.pool },
      { title: t("types"), cell: (worker) => worker.types.join(", ") },
      { title: t("slots"), number: true, cell: (worker) => worker.slots },
      { title: t("running"), number: true, cell: (worker) => worker.nodes.length },
      { title: t("status"), cell: (worker) => tag(t(worker.draining ? "draining" : "open"), worker.draining ? "warn" : "good") },
      { title: t("engine"), cell: (worker) => worker.engine },
      { title: t("lastBeat"), cell: (worker) => time(worker.lastBeatAt) },
    ],
    workers, t("noWorkers"),
  );
}
