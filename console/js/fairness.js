import { get, post } from "./api.js";
import { el, field, form, short, table } from "./dom.js";
import { number, t } from "./i18n.js";

const HOUR_S = 3600;
const percent = (share) => `${(share * 100).toFixed(1)} %`;
const seconds = (value) => `${value.toFixed(1)} s`;

/** Shares against weights, the virtual clocks, and a replay with other weights. */
export async function fairness(me) {
  const [found, scheduler, names] = await Promise.all([
    get(`/ops/fairness?windowSeconds=${HOUR_S}`), get("/ops/scheduler"), tenantNames(me),
  ]);
  return el("div", {},
    el("h2", {}, t("shares")), el("p", { class: "soft" }, t("sharesHint")), shares(found, names),
    el("h2", {}, t("clocks")), scheduler.pools.map((pool) => clocks(pool, names)),
    el("h2", {}, t("whatIf")), el("p", { class: "soft" }, t("whatIfHint")), whatIf(found.tenants, names),
  );
}

/** Tenant names for users with the permission, ids for others. */
export async function tenantNames(me) {
  if (!me.permissions.includes("tenant.manage")) return short;
  const { items } = await get("/tenants?limit=100");
  const names = new Map(items.map((one) => [one.tenantId, one.name]));
  return (id) => (names.has(id) ? el("span", { title: id }, names.get(id)) : short(id));
}

function shares({ tenants, bound, worst, worstPair, jain }, names) {
  if (!tenants.length) return el("p", { class: "card soft" }, t("noService"));
  return el("div", { class: "card" },
    el("div", { class: "shares", role: "list" }, tenants.map((tenant) =>
      el("div", { class: "share", role: "listitem" },
        el("span", { class: "clip" }, names(tenant.tenantId), el("span", { class: "soft" }, ` ×${tenant.weight}`)),
        el("div", { class: "track", "aria-hidden": "true" },
          el("i", { style: `width: ${tenant.share * 100}%` }),
          tenant.isContending && el("b", { style: `left: ${tenant.idealShare * 100}%` })),
        el("span", { class: "digits" }, `${percent(tenant.share)} / ${tenant.isContending ? percent(tenant.idealShare) : "–"}`)))),
    el("p", { class: "soft" }, worstPair
      ? `${t("worst")}: ${seconds(worst)} · ${t("bound")}: ${seconds(worstPair.bound)} (${t("atMost")} ${seconds(bound)}) · Jain ${jain.toFixed(4)}`
      : t("notCompared")),
  );
}

function clocks({ pool, gvt, slots, running, tenants }, names) {
  return el("div", {},
    el("p", { class: "soft" }, `${t("pool")} ${pool} · ${t("virtualTime")} ${seconds(gvt)} · ${t("running")} ${number(running)} / ${number(slots)} ${t("slots")}`),
    tenants.length > 0 && table(
      [
        { title: t("tenant"), cell: (tenant) => names(tenant.tenantId) },
        { title: t("weight"), number: true, cell: (tenant) => tenant.weight },
        { title: t("lastTag"), number: true, cell: (tenant) => seconds(tenant.lastVft) },
        { title: t("depth"), number: true, cell: (tenant) => number(tenant.queued) },
        { title: t("running"), number: true, cell: (tenant) => number(tenant.running) },
        { title: t("cap"), number: true, cell: (tenant) => tenant.cap ?? "–" },
      ],
      tenants, t("nothing"),
    ));
}

/** A form that replays the last hour with other weights or caps. It changes no live data. */
function whatIf(tenants, names) {
  if (!tenants.length) return el("p", { class: "card soft" }, t("noService"));
  const answer = el("div", { "aria-live": "polite", "data-keep": true });
  const submit = async (values) => {
    const changes = tenants.map(({ tenantId }) => ({
      tenantId,
      ...(values[`weight:${tenantId}`] && { weight: Number(values[`weight:${tenantId}`]) }),
      ...(values[`cap:${tenantId}`] && { concurrency: Number(values[`cap:${tenantId}`]) }),
    })).filter((one) => "weight" in one || "concurrency" in one);
    const found = await post("/ops/simulate", { changes: { tenants: changes }, windowSeconds: HOUR_S });
    answer.replaceChildren(comparison(found.tenants, names));
  };
  return el("div", {},
    form({ class: "card" }, submit,
      tenants.map(({ tenantId, weight }) => el("div", { class: "row named" },
        el("strong", { class: "clip" }, names(tenantId)),
        field(t("weight"), { name: `weight:${tenantId}`, type: "number", min: 1, max: 1000, placeholder: weight }),
        field(t("cap"), { name: `cap:${tenantId}`, type: "number", min: 0, max: 100000, placeholder: t("unchanged") }))),
      el("p", {}, el("button", {}, t("replay")))),
    answer,
  );
}

function comparison(tenants, names) {
  const wait = (waits) => `${seconds(waits.meanSeconds)} / ${seconds(waits.worstSeconds)}`;
  return table(
    [
      { title: t("tenant"), cell: (one) => names(one.tenantId) },
      { title: t("pool"), cell: (one) => one.pool },
      { title: t("waitBefore"), number: true, cell: (one) => wait(one.before) },
      { title: t("waitAfter"), number: true, cell: (one) => wait(one.after) },
      { title: t("started"), number: true, cell: (one) => `${number(one.before.started)} → ${number(one.after.started)}` },
    ],
    tenants, t("noService"),
  );
}
