import { call, get, post, postOnce } from "./api.js";
import { attempt, el, pages, short, table, tag, toast } from "./dom.js";
import { number, t, time, yuan } from "./i18n.js";
import { picture } from "./qr.js";

const POLL_MS = 1000;
const PAGE = 20;
const OPEN = new Set(["CREATED", "PAYING", "PAID"]);
const STATUS_STYLES = { COMPLETED: "good", CLOSED: "", REFUNDING: "warn", REFUNDED: "warn" };

const signed = (value) => el("span", { class: value > 0 ? "plus" : value < 0 ? "minus" : "soft" }, (value > 0 ? "+" : "") + number(value));

export async function wallet(me, redraw) {
  const mayBuy = me.permissions.includes("order.create");
  const [points, packages, ledger, orders] = await Promise.all([
    get("/points"), get("/packages"), get(`/points/ledger?limit=${PAGE}`), mayBuy ? get("/orders?limit=5") : null,
  ]);
  const payment = el("div", { "aria-live": "polite" });
  return el("section", {},
    el("h1", {}, t("wallet")),
    el("div", { class: "grid tight" },
      el("div", { class: "card" }, el("div", { class: "soft" }, t("available")), el("div", { class: "figure" }, number(points.balance))),
      el("div", { class: "card" }, el("div", { class: "soft" }, t("frozen")), el("div", { class: "figure" }, number(points.frozen))),
    ),
    mayBuy && [
      el("h2", {}, t("recharge")),
      el("div", { class: "grid tight" }, packages.items.map((one) =>
        el("div", { class: "card" },
          el("div", { class: "figure" }, number(one.points)), el("div", { class: "soft" }, `${t("points")} · ${yuan(one.amountFen)}`),
          el("p", {}, el("button", { "aria-label": `${t("pay")} ${yuan(one.amountFen)}`, onclick: () => order(one, payment, redraw) }, t("pay"))),
        ))),
      payment,
    ],
    el("h2", {}, t("ledger")),
    pages(ledger, (cursor) => get(`/points/ledger?limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`), entries),
    el("p", {}, el("button", { class: "quiet", onclick: attempt(download) }, t("exportCsv"))),
    orders?.items.length > 0 && [el("h2", {}, t("orders")), orderTable(orders.items)],
  );
}

const entries = (items) => table(
  [
    { title: t("when"), cell: (entry) => time(entry.createdAt) },
    { title: t("kind"), cell: (entry) => tag(t(`kind_${entry.kind}`)) },
    { title: t("change"), number: true, cell: (entry) => signed(entry.balanceDelta) },
    { title: t("frozenChange"), number: true, cell: (entry) => signed(entry.frozenDelta) },
    { title: t("balance"), number: true, cell: (entry) => number(entry.balance) },
    { title: t("reference"), cell: (entry) => short(entry.reference) },
  ],
  items, t("nothing"),
);

const orderTable = (items) => table(
  [
    { title: t("when"), cell: (one) => time(one.createdAt) },
    { title: t("order"), cell: (one) => short(one.orderId) },
    { title: t("pointsHead"), number: true, cell: (one) => number(one.points) },
    { title: t("amount"), number: true, cell: (one) => yuan(one.amountFen) },
    { title: t("status"), cell: (one) => tag(t(`order_${one.status}`), STATUS_STYLES[one.status]) },
  ],
  items, t("nothing"),
);

async function download() {
  const text = await call("GET", "/points/ledger?format=csv");
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "points.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
}

let paying = 0;

/** Create the order, show the QR code, and poll the order until it is paid or closed. */
const order = attempt(async (chosen, container, redraw) => {
  const turn = (paying += 1);
  const created = await postOnce("/orders", { packageId: chosen.packageId, channel: "native" });
  container.replaceChildren(el("div", { class: "card payment" },
    picture(created.codeUrl, t("scan")),
    el("div", {},
      el("p", {}, t("scan")),
      el("p", { class: "figure small" }, yuan(created.amountFen)),
      el("p", { class: "soft" }, `${number(created.points)} ${t("points")} · ${t("until")} ${time(created.expiresAt)}`),
      el("p", { class: "secret" }, created.codeUrl),
      el("p", { class: "row" }, el("span", { class: "soft" }, t("waitingForPayment")),
        el("button", { class: "quiet", onclick: attempt(() => post(`/orders/${created.orderId}/close`)) }, t("giveUp"))))));
  container.scrollIntoView({ block: "nearest" });
  let found = created;
  while (OPEN.has(found.status)) {
    await new Promise((wake) => setTimeout(wake, POLL_MS));
    if (!container.isConnected || turn !== paying) return;
    found = await get(`/orders/${created.orderId}`);
  }
  toast(t(found.status === "COMPLETED" ? "paid" : "closed"));
  redraw();
});
