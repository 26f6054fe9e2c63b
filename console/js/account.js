import { get, patch, post, remove, session } from "./api.js";
import { attempt, el, field, form, table, tag } from "./dom.js";
import { t, time } from "./i18n.js";

/** The login form, or the form that creates a tenant with its owner. */
export function loginPage(isNew = false) {
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
      isNew ? el("p", { class: "soft" }, t("passwordHint")) : null,
      el("p", {}, el("button", {}, t(isNew ? "register" : "login"))),
    ),
    el("p", { class: "soft" }, t(isNew ? "haveAccount" : "noAccount"), " ",
      el("a", { href: isNew ? "#/login" : "#/register" }, t(isNew ? "login" : "register"))),
  );
}

/** The user, and the health of the platform. */
export async function home(me) {
  const health = await get("/health");
  const card = (title, content) => el("div", { class: "card" }, el("div", { class: "soft" }, title), content);
  return el("section", {},
    el("h1", {}, t("home")),
    el("div", { class: "grid" },
      card(t("you"), el("strong", { class: "clip", title: me.email }, me.email || me.userId)),
      card(t("tier"), el("strong", {}, t(`tier_${me.tier}`))),
      card(t("roles"), el("strong", {}, me.roles.map(roleName).join(", "))),
      card(t("health"), tag(t(`health_${health.status}`), health.status === "ok" ? "good" : "bad")),
    ),
    el("p", { class: "row" },
      me.permissions.includes("task.submit") && el("a", { class: "button", href: "#/studio" }, t("toStudio")),
      el("a", { href: "/api/v1/docs" }, t("apiDocs"))),
  );
}

const roleName = (name) => t(`role_${name}`, name);

export async function team(me, redraw) {
  const page = el("section", {}, el("h1", {}, t("team")));
  if (me.permissions.includes("user.manage")) page.append(...(await people(me, redraw)));
  page.append(...(await keys(me)));
  return page;
}

async function people(me, redraw) {
  const [users, roles] = await Promise.all([get("/users?limit=100"), get("/roles?limit=100")]);
  const choices = roles.items.map((role) => [role.name, roleName(role.name)]);
  const change = (user, changes) => attempt(async () => {
    await patch(`/users/${user.userId}`, changes);
    redraw();
  });
  return [
    el("h2", {}, t("people")),
    table(
      [
        { title: t("email"), cell: (user) => user.email ?? user.phone ?? user.userId },
        { title: t("roles"), cell: (user) => user.roles.map(roleName).join(", ") },
        { title: t("status"), cell: (user) => tag(t(`user_${user.status}`), user.status === "ACTIVE" ? "good" : "bad") },
        { title: "", cell: (user) => user.userId !== me.userId && (user.status === "ACTIVE"
          ? el("button", { class: "quiet", onclick: change(user, { status: "DISABLED" }) }, t("disable"))
          : el("button", { class: "quiet", onclick: change(user, { status: "ACTIVE" }) }, t("enable"))) },
      ],
      users.items, t("nothing"),
    ),
    el("h2", {}, t("invite")),
    form({ class: "card row" }, async ({ email, password, role }) => {
      await post("/users", { email, password, roles: [role] });
      redraw();
    },
      field(t("email"), { name: "email", type: "email", required: true, autocomplete: "off" }),
      field(t("password"), { name: "password", type: "password", required: true, minlength: 8, autocomplete: "new-password" }),
      field(t("roles"), { name: "role" }, choices, choices.some(([name]) => name === "member") ? "member" : undefined),
      el("button", {}, t("invite")),
    ),
  ];
}

async function keys(me) {
  const list = el("div");
  const refresh = async () => list.replaceChildren(keyTable((await get("/api-keys?limit=100")).items, refresh));
  await refresh();
  const shown = el("div", { "aria-live": "polite" });
  const preset = (permission) => permission.startsWith("task.");
  const create = async (values, element) => {
    const permissions = [...element.querySelectorAll("[name=permission]:checked")].map((box) => box.value);
    const expiresAt = values.days ? new Date(Date.now() + values.days * 86_400_000).toISOString() : null;
    const made = await post("/api-keys", { name: values.name, permissions, expiresAt, signed: Boolean(values.signed) });
    shown.replaceChildren(el("p", {}, t("keyOnce")), el("p", { class: "secret" }, made.key));
    element.reset();
    await refresh();
  };
  const box = (name, value, text, checked) => el("label", { class: "box" }, el("input", { type: "checkbox", name, value, checked }), text);
  return [
    el("h2", {}, t("keys")),
    list,
    el("h2", {}, t("createKey")),
    form({ class: "card" }, create,
      el("div", { class: "row" },
        field(t("name"), { name: "name", required: true, maxlength: 60 }),
        field(t("daysToLive"), { name: "days", type: "number", min: 1, max: 3650, placeholder: t("forEver") })),
      el("fieldset", {}, el("legend", {}, t("permissions")), me.permissions.map((one) => box("permission", one, one, preset(one)))),
      box("signed", "yes", t("signedHint")),
      el("p", {}, el("button", {}, t("createKey"))),
      shown),
  ];
}

const keyTable = (items, refresh) => table(
  [
    { title: t("name"), cell: (key) => key.name },
    { title: t("permissions"), cell: (key) => el("span", { class: "clip wide", title: key.permissions.join(", ") }, key.permissions.join(", ")) },
    { title: t("signed"), cell: (key) => t(key.signed ? "yes" : "no") },
    { title: t("created"), cell: (key) => time(key.createdAt) },
    { title: t("expires"), cell: (key) => (key.expiresAt ? time(key.expiresAt) : "–") },
    { title: "", cell: (key) => el("button", { class: "quiet", "aria-label": `${t("revoke")} ${key.name}`, onclick: attempt(async () => {
      await remove(`/api-keys/${key.keyId}`);
      await refresh();
    }) }, t("revoke")) },
  ],
  items, t("nothing"),
);
