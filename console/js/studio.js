import { get, post, postOnce } from "./api.js";
import { attempt, el, field, form, table } from "./dom.js";
import { locale, number, t, time } from "./i18n.js";
import { remember, status, watch } from "./task.js";

const title = (tool) => tool.title[locale() === "en" ? "en" : "zh"] ?? tool.tool;
const HISTORY = 10;

/** Upload pictures, choose a tool, see price and waiting time, follow the task, compare and download. */
export async function studio() {
  const [tools, tasks] = await Promise.all([get("/tools"), get(`/tasks?limit=${HISTORY}`)]);
  const titles = new Map(tools.items.map((one) => [one.tool, title(one)]));
  const past = el("div");
  const showPast = (items) => past.replaceChildren(history(items, titles, follow));
  const live = el("div", { "aria-live": "polite" });
  const refresh = attempt(async () => {
    window.dispatchEvent(new Event("points-changed"));
    showPast((await get(`/tasks?limit=${HISTORY}`)).items);
  });
  const follow = (taskId) => watch(taskId, live, titles, refresh);
  const formPlace = el("div");
  const accepted = (taskId) => {
    follow(taskId);
    refresh();
  };
  const show = (tool) => formPlace.replaceChildren(taskForm(tool, accepted));
  const picker = el("select", { id: "tool", onchange: () => show(tools.items.find((one) => one.tool === picker.value)) },
    Object.entries(Object.groupBy(tools.items, (one) => one.group)).map(([group, members]) =>
      el("optgroup", { label: t(`group_${group}`) },
        members.map((one) => el("option", { value: one.tool }, `${title(one)} · ${one.pricePoints} ${t("points")}`)))));
  show(tools.items[0]);
  showPast(tasks.items);
  return el("section", {},
    el("h1", {}, t("studio")),
    el("div", { class: "card" }, el("label", { for: "tool" }, t("tool")), picker, formPlace),
    live,
    el("h2", {}, t("history")),
    past,
  );
}

const history = (tasks, titles, follow) => table(
  [
    { title: t("when"), cell: (task) => time(task.createdAt) },
    { title: t("tool"), cell: (task) => titles.get(task.tool) ?? (task.name || t("flow")) },
    { title: t("status"), cell: (task) => status(task.status) },
    { title: t("charged"), number: true, cell: (task) => number(task.chargedPoints) },
    { title: "", cell: (task) => el("button", { class: "quiet", onclick: () => follow(task.taskId) }, t("show")) },
  ],
  tasks, t("nothing"),
);

/** A form generated from the tool's schema, so a new parameter needs no new page. */
function taskForm(tool, accepted) {
  const names = Object.entries(tool.params.properties ?? {});
  const inputs = [...tool.inputs, ...tool.optionalInputs];
  const price = el("p", { class: "soft", "aria-live": "polite" });
  const total = (count) => `${number(tool.pricePoints * count)} ${t("points")}`;
  const requestOf = async (element) => {
    const files = inputs.map((name) => [name, element.elements[`input:${name}`].files[0]]).filter(([, file]) => file);
    if (tool.inputs.some((name) => !files.find(([given]) => given === name))) return null;
    const uploaded = Object.fromEntries(await Promise.all(files.map(async ([name, file]) => [name, await upload(file)])));
    const values = Object.fromEntries(new FormData(element));
    return { tool: tool.tool, inputs: uploaded, count: Number(values.count), params: chosen(names, values) };
  };
  let estimates = 0;
  const estimate = attempt(async (element) => {
    const turn = (estimates += 1);
    price.textContent = total(Number(element.elements.count.value));
    const body = element.checkValidity() ? await requestOf(element) : null;
    if (!body || turn !== estimates) return;
    const found = await post("/tasks/estimate", body);
    const end = found.etaEndSeconds === null ? t("noStart") : `${t("readyIn")} ${number(found.etaEndSeconds)} s`;
    if (turn === estimates) price.textContent = `${number(found.pricePoints)} ${t("points")} · ${end} · ${found.lane}`;
  });
  const submit = async (_, element) => {
    const body = await requestOf(element);
    const task = await postOnce("/tasks", body);
    remember(task.taskId, element.elements[`input:${inputs[0]}`].files[0]);
    accepted(task.taskId);
  };
  const element = form({}, submit,
    inputs.map((name) => field(`${t("picture")}: ${t(`input_${name}`, name)}`, {
      name: `input:${name}`, type: "file", accept: "image/png,image/jpeg,image/webp", required: tool.inputs.includes(name),
    })),
    field(t("count"), { name: "count", type: "number", required: true, min: tool.count.minimum, max: tool.count.maximum, value: tool.count.default }),
    el("details", {}, el("summary", {}, t("options")), el("div", { class: "grid tight" }, names.map(([name, schema]) => parameter(name, schema)))),
    price,
    el("p", {}, el("button", {}, t("submit"))),
  );
  element.addEventListener("change", () => estimate(element));
  price.textContent = total(tool.count.default);
  return element;
}

function parameter(name, schema) {
  const preset = schema.default ?? "";
  const label = t(`param_${name}`, name);
  const worded = (one) => [one, t(`value_${one}`, one)];
  if (schema.enum) return field(label, { name }, [...(schema.default === undefined ? [["", "–"]] : []), ...schema.enum.map(worded)], preset);
  if (schema.type === "boolean") return field(label, { name }, [["true", t("yes")], ["false", t("no")]], String(preset));
  if (schema.type === "integer" || schema.type === "number")
    return field(label, { name, type: "number", min: schema.minimum, max: Math.min(schema.maximum ?? Infinity, Number.MAX_SAFE_INTEGER),
      step: schema.type === "integer" ? 1 : "any", value: preset });
  return field(label, { name, value: Array.isArray(preset) ? "" : preset, maxlength: schema.maxLength, pattern: schema.pattern,
    placeholder: schema.type === "array" ? "[[0.1, 0.1, 0.5, 0.5]]" : undefined });
}

function chosen(names, values) {
  const read = { integer: Number, number: Number, boolean: (text) => text === "true", array: JSON.parse };
  return Object.fromEntries(names.filter(([name]) => values[name] !== "" && values[name] !== undefined)
    .map(([name, schema]) => [name, (read[schema.type] ?? String)(values[name])]));
}

const uploads = new WeakMap();

/** Upload a file once, directly to the bucket. */
function upload(file) {
  if (!uploads.has(file)) {
    const sending = send(file);
    sending.catch(() => uploads.delete(file));
    uploads.set(file, sending);
  }
  return uploads.get(file);
}

async function send(file) {
  const ticket = await post("/uploads", { contentType: file.type, bytes: file.size });
  // The browser sets the content length; scripts may not.
  const headers = Object.fromEntries(Object.entries(ticket.headers ?? {}).filter(([name]) => name.toLowerCase() !== "content-length"));
  const answer = await fetch(ticket.url, { method: ticket.method, headers, body: file });
  if (!answer.ok) throw new Error(`${t("uploadFailed")} (${answer.status})`);
  return ticket.inputId;
}
