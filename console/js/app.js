import { home, loginPage, team } from "./account.js";
import { get, post, session } from "./api.js";
import { el, toast } from "./dom.js";
import { number, setLanguage, t } from "./i18n.js";
import { operations } from "./operations.js";
import { studio } from "./studio.js";
import { wallet } from "./wallet.js";

/** Address → page. Only users with its permission see a page; live sections are redrawn at an interval. */
const PAGES = {
  "": { title: "home", draw: home },
  studio: { title: "studio", draw: studio, permission: "task.submit" },
  wallet: { title: "wallet", draw: wallet, permission: "points.read" },
  team: { title: "team", draw: team },
  ops: { title: "ops", draw: operations, permission: "ops.read", live: ["", "fairness"] },
};
const LIVE_MS = 5000;
const HEALTH_MS = 15000;

const main = document.getElementById("main");
const allowed = (me, page) => !page.permission || me.permissions.includes(page.permission);
const address = () => location.hash.replace(/^#\/?/, "").split("/");
let drawing = 0;
let permissions = [];

async function draw() {
  const turn = (drawing += 1);
  setLanguage();
  document.getElementById("logout").hidden = !session.isOpen;
  const [name, section = ""] = address();
  if (!session.isOpen) {
    permissions = [];
    document.getElementById("nav").replaceChildren();
    document.getElementById("balance").textContent = "";
    document.title = `${t(name === "register" ? "register" : "login")} · Artiway`;
    main.replaceChildren(loginPage(name === "register"));
    return;
  }
  try {
    const me = await get("/me");
    permissions = me.permissions;
    const page = PAGES[name] ?? PAGES[""];
    document.getElementById("nav").replaceChildren(
      ...Object.entries(PAGES).filter(([, one]) => allowed(me, one)).map(([path, one]) =>
        el("a", { href: `#/${path}`, "aria-current": one === page && "page" }, t(one.title))),
    );
    document.title = `${t(page.title)} · Artiway`;
    showBalance();
    main.setAttribute("aria-busy", "true");
    const content = allowed(me, page) ? await page.draw(me, draw, section) : el("p", {}, t("notAllowed"));
    if (turn !== drawing) return; // a slower page must not replace a newer one
    main.replaceChildren(content);
    if (page.live?.includes(section)) setTimeout(() => redrawLater(turn), LIVE_MS);
  } catch (error) {
    if (session.isOpen) toast(error.message);
    else draw();
  } finally {
    if (turn === drawing) main.removeAttribute("aria-busy");
  }
}

/** Redraw, unless the user types or has opened details, which a redraw would remove. */
function redrawLater(turn) {
  if (turn !== drawing) return;
  const active = document.activeElement;
  const isBusy = (active !== main && main.contains(active)) || main.querySelector("[data-keep]:not(:empty), details[open]");
  if (isBusy || document.hidden) setTimeout(() => redrawLater(turn), LIVE_MS);
  else draw();
}

async function showBalance() {
  if (!permissions.includes("points.read")) return;
  const points = await get("/points").catch(() => null);
  if (points && session.isOpen) document.getElementById("balance").textContent = `${number(points.balance)} ${t("points")}`;
}

async function watchHealth() {
  const banner = document.getElementById("banner");
  const parts = await unavailableParts().catch(() => ["API"]);
  banner.hidden = !parts.length;
  banner.textContent = t("degraded") + parts.join(", ");
}

async function unavailableParts() {
  const failed = (checks) => Object.entries(checks).filter(([, answer]) => answer !== "ok").map(([name]) => name);
  if (!session.isOpen || !permissions.includes("ops.read")) return failed((await get("/health")).checks);
  const { checks, readings } = await get("/ops/health");
  return [...failed(checks), ...readings.filter((one) => !one.ok).map((one) => t(`reading_${one.name}`))];
}

document.getElementById("language").addEventListener("click", () => {
  setLanguage(true);
  draw();
  watchHealth();
});
document.getElementById("logout").addEventListener("click", async () => {
  await post("/auth/logout").catch(() => {});
  session.tokens = null;
  draw();
});
window.addEventListener("hashchange", () => draw().then(() => main.focus({ preventScroll: true })));
window.addEventListener("logged-in", draw);
window.addEventListener("logged-out", draw);
window.addEventListener("points-changed", showBalance);
watchHealth();
setInterval(watchHealth, HEALTH_MS);
draw();
