import { t } from "./i18n.js";

/** Builds elements without innerHTML, so that nothing a tenant typed can become markup. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let fieldNumber = 0;

/** A labelled input: the label is tied to it for screen readers. */
export function field(label, attributes = {}, options = null, selected = undefined) {
  const id = `field-${(fieldNumber += 1)}`;
  const input = options
    ? el("select", { id, ...attributes }, options.map(([value, text]) => el("option", { value }, text)))
    : el("input", { id, ...attributes });
  if (selected !== undefined) input.value = selected; // only now are there options to choose from
  return el("div", {}, el("label", { for: id }, label), input);
}

export function table(columns, rows, empty) {
  const head = columns.map(({ title, number }) => el("th", { scope: "col", class: number && "number" }, title));
  const body = rows.map((row) =>
    el("tr", {}, columns.map(({ cell, number }) => el("td", { class: number && "number" }, cell(row)))),
  );
  if (!rows.length) body.push(el("tr", {}, el("td", { colspan: columns.length, class: "soft" }, empty)));
  return el("div", { class: "table" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

/** Buttons that fetch more and add it below. */
export function pages(first, more, draw) {
  const items = [...first.items];
  const place = el("div");
  const show = (cursor) => place.replaceChildren(
    draw(items),
    cursor ? el("p", {}, el("button", { class: "quiet", type: "button", onclick: attempt(async () => {
      const next = await more(cursor);
      items.push(...next.items);
      show(next.nextCursor);
    }) }, t("more"))) : "",
  );
  show(first.nextCursor);
  return place;
}

/** An act that tells when it failed. */
export const attempt = (act) => async (...given) => {
  try {
    return await act(...given);
  } catch (error) {
    toast(error.message);
  }
};

/** An id short enough for a table, whole when pointed at; its end differs most. Words stay as they are. */
export const short = (id) =>
  (/[0-9a-f-]{16}/i.test(id ?? "") ? el("span", { title: id }, `${id.slice(0, 4)}…${id.slice(-6)}`) : id ?? "–");

export const tag = (text, mood = "") => el("span", { class: `tag ${mood}` }, text);

export function toast(text) {
  const line = el("p", {}, text);
  document.getElementById("toast").append(line);
  setTimeout(() => line.remove(), 6000);
}

/** A form that tells what went wrong and cannot be sent twice. */
export function form(attributes, onsubmit, ...children) {
  const element = el("form", attributes, ...children);
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    const buttons = [...element.querySelectorAll("button")];
    buttons.forEach((button) => (button.disabled = true));
    try {
      await onsubmit(Object.fromEntries(new FormData(element)), element);
    } catch (error) {
      toast(error.message);
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  });
  return element;
}
