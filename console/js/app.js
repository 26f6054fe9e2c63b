import { door, home, team } from "./account.js";
import { get, post, session } from "./api.js";
import { el, toast } from "./dom.js";
import { number, setLanguage, t } from "./i18n.js";
import { operations } from "./operations.js";
import { studio } from "./studio.js";
import { wallet } from "./wallet.js";

/** Address → page. A page is shown only to those who hold its permission. */
const PAGES = {
  "#/": { title: "home", draw: home },
  "#/studio": { title: "studio", draw: studio, permission: "task.submit" },
  "#/wallet": { title: "wallet", draw: wallet, permission: "points.read" },
  "#/team": { title: "team", draw: team },
  "#/ops": { title: "ops", draw: operations, permission: "ops.read" },
};

const main = document.getElementById("main");
const allowed = (me, page) => !page.permission || me.permissions.includes(page.permission);
let drawing = 0;

async function draw() {
  const turn = (drawing += 1);
  setLanguage();
  document.getElementById("logout").hidden = !session.isOpen;
  if (!session.isOpen) {
    document.getElementById("nav").replaceChildren();
    document.getElementById("balance").textContent = "";
    main.replaceChildren(door(location.hash === "#/register"));
    return;
  }
  try {
    const me = await get("/me");
    const page = PAGES[location.hash] ?? PAGES["#/"];
    document.getElementById("nav").replaceChildren(
      ...Object.entries(PAGES).filter(([, one]) => allowed(me, one)).map(([address, one]) =>
        el("a", { href: address, "aria-current": one === page && "page" }, t(one.title))),
    );
    document.title = `${t(page.title)} · Artiway`;
    if (allowed(me, PAGES["#/wallet"])) {
      const points = await get("/points");
      document.getElementById("balance").textContent = `${number(points.balance)} ${t("points")}`;
    }
    main.setAttribute("aria-busy", "true");
    const content = allowed(me, page) ? await page.draw(me, draw) : el("p", {}, t("notAllowed"));
    if (turn === drawing) main.replaceChildren(content); // a slower page must not replace a newer one
  } catch (error) {
    if (session.isOpen) toast(error.message);
    else draw();
  } finally {
    if (turn === drawing) main.removeAttribute("aria-busy");
  }
}

async function watchHealth() {
  const banner = document.getElementById("banner");
  try {
    const { status, checks } = await get("/health");
    const away = Object.entries(checks).filter(([, answer]) => answer !== "ok").map(([name]) => name);
    banner.hidden = status === "ok";
    banner.textContent = t("degraded") + away.join(", ");
  } catch {
    banner.hidden = false;
    banner.textContent = t("degraded") + "API";
  }
}

document.getElementById("language").addEventListener("click", () => {
  setLanguage(true);
  draw();
});
document.getElementById("logout").addEventListener("click", async () => {
  await post("/auth/logout").catch(() => {});
  session.tokens = null;
  draw();
});
window.addEventListener("hashchange", () => draw().then(() => main.focus()));
window.addEventListener("logged-in", draw);
window.addEventListener("logged-out", draw);
watchHealth();
setInterval(watchHealth, 15000);
draw();
