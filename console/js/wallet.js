import { call, get, postOnce } from "./api.js";
import { el, table, toast } from "./dom.js";
import { number, t, time, yuan } from "./i18n.js";

const POLL_MS = 1000;
const OPEN = new Set(["CREATED", "PAYING", "PAID"]);

const signed = (value) => el("span", { class: value > 0 ? "plus" : value < 0 ? "minus" : "soft" }, (value > 0 ? "+" : "") + number(value));

export async function wallet(me, redraw) {
  const [points, packages, ledger] = await Promise.all([get("/points"), get("/packages"), get("/points/ledger?limit=20")]);
  const payment = el("div", { "aria-live": "polite" });
  return el("section", {},
    el("h1", {}, t("wallet")),
    el("div", { class: "grid" },
      el("div", { class: "card" }, el("div", { class: "soft" }, t("available")), el("div", { class: "figure" }, number(points.balance))),
      el("div", { class: "card" }, el("div", { class: "soft" }, t("frozen")), el("div", { class: "figure" }, number(points.frozen))),
    ),
    me.permissions.includes("order.create") && [
      el("h2", {}, t("recharge")),
      el("div", { class: "grid" }, packages.items.map((one) =>
        el("div", { class: "card" },
          el("div", { class: "figure" }, number(one.points)), el("div", { class: "soft" }, `${t("points")} · ${yuan(one.amountFen)}`),
          el("p", {}, el("button", { onclick: () => order(one, payment, redraw) }, t("pay"))),
        ))),
      payment,
    ],
    el("h2", {}, t("ledger")),
    entries(ledger),
  );
}

function entries(first) {
  const place = el("div");
  const items = [...first.items];
  const draw = (cursor) => place.replaceChildren(
    table(
      [
        { title: t("when"), cell: (entry) => time(entry.createdAt) },
        { title: t("kind"), cell: (entry) => el("span", { class: "tag" }, entry.kind) },
        { title: t("change"), number: true, cell: (entry) => signed(entry.balanceDelta) },
        { title: t("frozenChange"), number: true, cell: (entry) => signed(entry.frozenDelta) },
        { title: t("balance"), number: true, cell: (entry) => number(entry.balance) },
        { title: t("reference"), cell: (entry) => entry.reference ?? "" },
      ],
      items, t("nothing"),
    ),
    el("p", { class: "row" },
      cursor && el("button", { class: "quiet", onclick: async () => {
        const next = await get(`/points/ledger?limit=20&cursor=${encodeURIComponent(cursor)}`);
        items.push(...next.items);
        draw(next.nextCursor);
      } }, t("more")),
      el("button", { class: "quiet", onclick: download }, t("exportCsv")),
    ),
  );
  draw(first.nextCursor);
  return place;
}

async function download() {
  const text = await call("GET", "/points/ledger?format=csv");
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "points.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Make the order, show how to pay it, and watch it until the money or the end has come. */
async function order(chosen, place, redraw) {
  try {
    const made = await postOnce("/orders", { packageId: chosen.packageId, channel: "native" });
    place.replaceChildren(el("div", { class: "card" },
      el("p", {}, t("scan"), " ", el("a", { href: made.codeUrl, target: "_blank", rel: "noopener" }, made.codeUrl)),
      el("p", { class: "soft" }, t("waitingForPayment"))));
    let found = made;
    while (OPEN.has(found.status) && place.isConnected) {
      await new Promise((wake) => setTimeout(wake, POLL_MS));
      found = await get(`/orders/${made.orderId}`);
    }
    if (!place.isConnected) return;
    toast(t(found.status === "COMPLETED" ? "paid" : "closed"));
    redraw();
  } catch (error) {
    toast(error.message);
  }
}
