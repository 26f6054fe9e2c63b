import { get, patch, post } from "./api.js";
import { el, field, form, table, toast } from "./dom.js";
import { number, t, time } from "./i18n.js";

const HOUR_S = 3600;
const percent = (share) => `${(share * 100).toFixed(1)} %`;

export async function operations(me, redraw) {
  const [lanes, fairness, workers] = await Promise.all([
    get("/ops/lanes"), get(`/ops/fairness?windowSeconds=${HOUR_S}`), get("/ops/workers"),
  ]);
  return el("section", {},
    el("h1", {}, t("ops")),
    el("h2", {}, t("lanes")), laneTable(lanes.items, me.permissions.includes("ops.write"), redraw),
    el("h2", {}, t("shares")), el("p", { class: "soft" }, t("sharesHint")), shares(fairness),
    el("h2", {}, t("workers")), workerTable(workers.items),
  );
}

function laneTable(lanes, mayWrite, redraw) {
  const act = async (work) => {
    try {
      await work;
      redraw();
    } catch (error) {
      toast(error.message);
    }
  };
  return table(
    [
      { title: t("lane"), cell: (lane) => lane.lane },
      { title: t("status"), cell: (lane) => el("span", { class: `tag ${lane.paused ? "warn" : "good"}` }, t(lane.paused ? "paused" : "open")) },
      { title: t("depth"), number: true, cell: (lane) => number(lane.depth) },
      { title: t("running"), number: true, cell: (lane) => number(lane.running) },
      { title: t("parallelism"), number: true, cell: (lane) => lane.parallelism ?? "–" },
      { title: t("limit"), number: true, cell: (lane) => (lane.limit === null ? "–" : number(lane.limit)) },
      { title: "", cell: (lane) => mayWrite && el("div", { class: "row" },
        el("button", { class: "quiet", onclick: () => act(post(`/ops/lanes/${lane.lane}/${lane.paused ? "resume" : "pause"}`)) },
          t(lane.paused ? "resume" : "pause")),
        form({ class: "row" }, ({ parallelism }) => act(patch(`/ops/lanes/${lane.lane}`, { parallelism: Number(parallelism) })),
          el("input", { name: "parallelism", type: "number", min: 0, max: 10000, "aria-label": `${t("parallelism")} ${lane.lane}`,
            value: lane.parallelism ?? "", style: "width: 84px" }),
          el("button", { class: "quiet" }, t("set")))) },
    ],
    lanes, t("nothing"),
  );
}

function shares({ tenants, bound, worst }) {
  if (!tenants.length) return el("p", { class: "soft" }, t("nothing"));
  return el("div", { class: "card" },
    el("div", { class: "shares", role: "list" }, tenants.map((tenant) =>
      el("div", { class: "share", role: "listitem",
        "aria-label": `${tenant.tenantId}: ${percent(tenant.share)} / ${percent(tenant.idealShare)}` },
        el("span", {}, tenant.name ?? tenant.tenantId, el("span", { class: "soft" }, ` ×${tenant.weight}`)),
        el("div", { class: "track" }, el("i", { style: `width: ${tenant.share * 100}%` }), el("b", { style: `left: ${tenant.idealShare * 100}%` })),
        el("span", {}, `${percent(tenant.share)} / ${percent(tenant.idealShare)}`)))),
    el("p", { class: "soft" }, `${t("bound")}: ${JSON.stringify(bound)} · ${t("worst")}: ${JSON.stringify(worst)}`),
  );
}

function workerTable(workers) {
  return table(
    [
      { title: t("worker"), cell: (worker) => worker.workerId },
      { title: t("types"), cell: (worker) => worker.types.join(", ") },
      { title: t("slots"), number: true, cell: (worker) => worker.slots },
      { title: t("lastBeat"), cell: (worker) => time(worker.lastBeatAt) },
    ],
    workers, t("nothing"),
  );
}
