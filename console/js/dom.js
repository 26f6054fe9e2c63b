import { t } from "./i18n.js";

/** Builds elements without innerHTML, so that text of a tenant cannot become markup. */
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

/** An input with a label, which screen readers announce. */
export function field(label, attributes = {}, options = null, selected = undefined) {
  const id = `field-${(fieldNumber += 1)}`;
  const input = options
    ? el("select", { id, ...attributes }, options.map(([value, text]) => el("option", { value }, text)))
    : el("input", { id, ...attributes });
  if (selected !== undefined) input.value = selected; // after the options exist
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

/** A list with a button that loads the next page. */
export function pages(first, more, draw) {
  const items = [...first.items];
  const list = el("div");
  const show = (cursor) => list.replaceChildren(
    draw(items),
    cursor ? el("p", {}, el("button", { class: "quiet", type: "button", onclick: attempt(async () => {
      const next = await more(cursor);
      items.push(...next.items);
      show(next.nextCursor);
    }) }, t("more"))) : "",
  );
  show(first.nextCursor);
  return list;
}

/** Wraps an action: an error is shown as a toast. */
export const attempt = (action) => async (...args) => {
  try {
    return await action(...args);
  } catch (error) {
    toast(error.message);
  }
};

/** An id shortened to its ends, with the full id as a tooltip. Other text is not changed. */
export const short = (id) =>
  (/[0-9a-f-]{16}/i.test(id ?? "") ? el("span", { title: id }, `${id.slice(0, 4)}…${id.slice(-6)}`) : id ?? "–");

export const tag = (text, style = "") => el("span", { class: `tag ${style}` }, text);

export function toast(text) {
  const line = el("p", {}, text);
  document.getElementById("toast").append(line);
  setTimeout(() => line.remove(), 6000);
}

/** A form that shows errors as a toast and is disabled while it is sent. */
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
