import { get } from "./api.js";
import { attempt, el, field, form, pages, short, table, tag } from "./dom.js";
import { number, t, time, yuan } from "./i18n.js";
import { tenantNames } from "./fairness.js";

const PAGE = 20;

/** The invariants, and the comparison of WeChat's bills with the local orders. */
export async function checks() {
  const [invariants, days] = await Promise.all([get("/ops/invariants"), get(`/ops/reconciliations?limit=${PAGE}`)]);
  const open = el("div", { "data-keep": true, "aria-live": "polite" });
  return el("div", {},
    el("h2", {}, t("invariants"), " ", tag(t(invariants.ok ? "holds" : "broken"), invariants.ok ? "good" : "bad")),
    table(
      [
        { title: t("check"), cell: (one) => t(`invariant_${one.name}`, one.name) },
        { title: t("status"), cell: (one) => tag(t(one.ok ? "holds" : "broken"), one.ok ? "good" : "bad") },
        { title: t("checked"), number: true, cell: (one) => number(one.checked) },
        { title: t("violations"), cell: (one) => (one.violations.length
          ? el("details", {}, el("summary", {}, number(one.violations.length)), el("pre", {}, JSON.stringify(one.violations, null, 1))) : "–") },
      ],
      invariants.checks, t("nothing"),
    ),
    el("h2", {}, t("reconciliations")), el("p", { class: "soft" }, t("reconciliationsHint")),
    pages(days, (cursor) => get(`/ops/reconciliations?limit=${PAGE}&cursor=${cursor}`), (items) => dayTable(items, open)),
    open,
  );
}

const DAY_STYLES = { DONE: "good", COMPARED: "warn", WAITING: "", FAILED: "bad" };

function dayTable(days, open) {
  const count = (value) => (value === null ? "–" : number(value));
  return table(
    [
      { title: t("day"), cell: (one) => one.day },
      { title: t("status"), cell: (one) => tag(t(`bill_${one.status}`), DAY_STYLES[one.status]) },
      { title: t("payments"), number: true, cell: (one) => count(one.payments) },
      { title: t("refunds"), number: true, cell: (one) => count(one.refunds) },
      { title: t("total"), number: true, cell: (one) => (one.totalFen === null ? "–" : yuan(one.totalFen)) },
      { title: t("differences"), number: true, cell: (one) => count(one.differences) },
      { title: "", cell: (one) => el("button", { class: "quiet", "aria-label": `${t("show")} ${one.day}`,
        onclick: attempt(async () => open.replaceChildren(await dayView(one.day))) }, t("show")) },
    ],
    days, t("noBills"),
  );
}

async function dayView(day) {
  const found = await get(`/ops/reconciliations/${day}`);
  const fen = (value) => (value === null ? "–" : yuan(value));
  return el("div", {},
    el("h2", {}, day),
    found.lastError && el("p", { class: "minus" }, found.lastError),
    pages(found, (cursor) => get(`/ops/reconciliations/${day}?cursor=${cursor}`), (items) => table(
      [
        { title: t("kind"), cell: (one) => t(`difference_${one.kind}`) },
        { title: t("reference"), cell: (one) => short(one.reference) },
        { title: t("ours"), number: true, cell: (one) => fen(one.oursFen) },
        { title: t("theirs"), number: true, cell: (one) => fen(one.theirsFen) },
        { title: t("order"), cell: (one) => short(one.orderId) },
        { title: t("became"), cell: (one) => tag(t(`resolution_${one.resolution}`), one.resolution === "OPEN" ? "bad" : "good") },
        { title: t("when"), cell: (one) => time(one.resolvedAt ?? one.foundAt) },
      ],
      items, t("noDifferences"),
    )),
  );
}

/** The audit log: actor, action and target. */
export async function audit(me) {
  const names = await tenantNames(me);
  const results = el("div", { "aria-live": "polite" });
  const search = async (values) => {
    const given = Object.entries(values).filter(([, value]) => value.trim());
    const words = given.map(([name, value]) => [name, name === "from" || name === "to" ? new Date(value).toISOString() : value.trim()]);
    const query = new URLSearchParams([...words, ["limit", PAGE]]);
    const found = await get(`/ops/audit?${query}`);
    if (given.length) results.setAttribute("data-keep", "");
    else results.removeAttribute("data-keep");
    results.replaceChildren(pages(found, (cursor) => get(`/ops/audit?${query}&cursor=${cursor}`), (items) => entries(items, names)));
  };
  await search({});
  return el("div", {},
    el("h2", {}, t("audit")),
    form({ class: "row" }, search,
      field(t("actor"), { name: "actor", placeholder: "usr_…", maxlength: 64 }),
      field(t("action"), { name: "action", placeholder: "lane.changed", maxlength: 100 }),
      field(t("target"), { name: "target", maxlength: 200 }),
      field(t("since"), { name: "from", type: "datetime-local" }),
      field(t("until"), { name: "to", type: "datetime-local" }),
      el("button", {}, t("search"))),
    el("p"),
    results,
  );
}

const entries = (items, names) => table(
  [
    { title: t("when"), cell: (one) => time(one.at) },
    { title: t("actor"), cell: (one) => (one.actorId ? short(one.actorId) : t("platform")) },
    { title: t("action"), cell: (one) => one.action },
    { title: t("target"), cell: (one) => short(one.target) },
    { title: t("tenant"), cell: (one) => (one.tenantId ? names(one.tenantId) : "–") },
    { title: t("details"), cell: (one) => el("code", { class: "clip wide", title: JSON.stringify(one.details) }, JSON.stringify(one.details)) },
  ],
  items, t("nothing"),
);
