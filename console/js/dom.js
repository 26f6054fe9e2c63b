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
export function field(label, attributes = {}, options = null) {
  const id = `field-${(fieldNumber += 1)}`;
  const input = options
    ? el("select", { id, ...attributes }, options.map(([value, text]) => el("option", { value }, text)))
    : el("input", { id, ...attributes });
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
