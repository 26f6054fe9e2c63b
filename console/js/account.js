import { get, patch, post, remove, session } from "./api.js";
import { el, field, form, table, toast } from "./dom.js";
import { t, time } from "./i18n.js";

/** Log in, or make a tenant and its owner. */
export function door(isNew = false) {
  const submit = async (values) => {
    session.tokens = await post(isNew ? "/auth/register" : "/auth/login", values);
    location.hash = "#/";
    window.dispatchEvent(new Event("logged-in"));
  };
  return el("section", { class: "card narrow" },
    el("h1", {}, t(isNew ? "register" : "login")),
    el("p", { class: "soft" }, t("welcome")),
    form({}, submit,
      isNew ? field(t("company"), { name: "tenantName", required: true, maxlength: 100, autocomplete: "organization" }) : null,
      isNew ? field(t("email"), { name: "email", type: "email", required: true, autocomplete: "email" })
            : field(t("loginField"), { name: "login", required: true, autocomplete: "username" }),
      field(t("password"), { name: "password", type: "password", required: true, minlength: isNew ? 8 : 1, maxlength: 128,
        autocomplete: isNew ? "new-password" : "current-password" }),
      el("p", {}, el("button", {}, t(isNew ? "register" : "login"))),
    ),
    el("p", { class: "soft" }, t(isNew ? "haveAccount" : "noAccount"), " ",
      el("a", { href: isNew ? "#/login" : "#/register" }, t(isNew ? "login" : "register"))),
  );
}

/** Who I am, and whether the platform is well. */
export async function home(me) {
  const health = await get("/health");
  return el("section", {},
    el("h1", {}, t("home")),
    el("div", { class: "grid" },
      el("div", { class: "card" }, el("div", { class: "soft" }, t("you")), el("strong", {}, me.email || me.userId)),
      el("div", { class: "card" }, el("div", { class: "soft" }, t("tier")), el("strong", {}, me.tier)),
      el("div", { class: "card" }, el("div", { class: "soft" }, t("roles")), el("strong", {}, me.roles.join(", "))),
      el("div", { class: "card" }, el("div", { class: "soft" }, t("health")),
        el("span", { class: `tag ${health.status === "ok" ? "good" : "bad"}` }, health.status)),
    ),
    el("p", {}, el("a", { href: "/api/v1/docs" }, t("apiDocs"))),
  );
}

export async function team(me, redraw) {
  const may = (permission) => me.permissions.includes(permission);
  const page = el("section", {}, el("h1", {}, t("team")));
  if (may("user.manage")) page.append(...(await people(redraw)));
  page.append(...(await keys(me, redraw)));
  return page;
}

async function people(redraw) {
  const [users, roles] = await Promise.all([get("/users"), get("/roles")]);
  const act = (work) => async () => {
    try {
      await work();
      redraw();
    } catch (error) {
      toast(error.message);
    }
  };
  return [
    el("h2", {}, t("people")),
    table(
      [
        { title: t("email"), cell: (user) => user.email ?? user.userId },
        { title: t("roles"), cell: (user) => user.roles.join(", ") },
        { title: t("status"), cell: (user) => el("span", { class: `tag ${user.status === "active" ? "good" : "bad"}` }, user.status) },
        { title: "", cell: (user) => {
          const next = user.status === "active" ? "disabled" : "active";
          return el("button", { class: "quiet", onclick: act(() => patch(`/users/${user.userId}`, { status: next })) },
            t(next === "active" ? "enable" : "disable"));
        } },
      ],
      users.items, t("nothing"),
    ),
    form({ class: "row" }, async ({ email, password, role }) => {
      await post("/users", { email, password, roles: [role] });
      redraw();
    },
      field(t("email"), { name: "email", type: "email", required: true }),
      field(t("password"), { name: "password", type: "password", required: true, minlength: 8, autocomplete: "new-password" }),
      field(t("roles"), { name: "role" }, roles.items.map((role) => [role.name, role.name])),
      el("button", {}, t("invite")),
    ),
  ];
}

async function keys(me, redraw) {
  const { items } = await get("/api-keys");
  const shown = el("div", { "aria-live": "polite" });
  return [
    el("h2", {}, t("keys")),
    table(
      [
        { title: t("name"), cell: (key) => key.name },
        { title: t("permissions"), cell: (key) => key.permissions.join(", ") },
        { title: t("when"), cell: (key) => (key.createdAt ? time(key.createdAt) : "") },
        { title: "", cell: (key) => el("button", { class: "quiet", onclick: async () => {
          await remove(`/api-keys/${key.keyId}`);
          redraw();
        } }, t("revoke")) },
      ],
      items, t("nothing"),
    ),
    form({ class: "row" }, async ({ name }) => {
      const made = await post("/api-keys", { name, permissions: me.permissions.filter((one) => one.startsWith("task.")) });
      shown.replaceChildren(el("p", {}, t("keyOnce")), el("p", { class: "secret" }, made.key));
    },
      field(t("name"), { name: "name", required: true, maxlength: 60 }), el("button", {}, t("createKey"))),
    shown,
  ];
}
