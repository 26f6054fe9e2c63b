import { get, post, postOnce, session } from "./api.js";
import { el, field, form, table, toast } from "./dom.js";
import { locale, number, t, time } from "./i18n.js";

const POLL_MS = 2000;
const ENDED = new Set(["COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]);
const title = (tool) => tool.title[locale() === "en" ? "en" : "zh"] ?? tool.tool;

/** Upload, pick a tool, see the price and the wait, watch the DAG fill up, download. */
export async function studio() {
  const [tools, tasks] = await Promise.all([get("/tools"), get("/tasks?limit=10")]);
  const live = el("div", { "aria-live": "polite" });
  const place = el("div");
  const show = (tool) => place.replaceChildren(order(tool, live));
  const picker = el("select", { id: "tool", onchange: () => show(tools.items.find((one) => one.tool === picker.value)) },
    Object.entries(Object.groupBy(tools.items, (one) => one.group)).map(([group, members]) =>
      el("optgroup", { label: t(`group_${group}`) },
        members.map((one) => el("option", { value: one.tool }, `${title(one)} · ${one.pricePoints} ${t("points")}`)))));
  show(tools.items[0]);
  return el("section", {},
    el("h1", {}, t("studio")),
    el("div", { class: "card" }, el("label", { for: "tool" }, t("tool")), picker, place),
    live,
    el("h2", {}, t("history")),
    table(
      [
        { title: t("when"), cell: (task) => time(task.createdAt) },
        { title: t("tool"), cell: (task) => task.tool },
        { title: t("status"), cell: (task) => status(task.status) },
        { title: t("points"), number: true, cell: (task) => number(task.chargedPoints) },
        { title: "", cell: (task) => el("button", { class: "quiet", onclick: () => watch(task.taskId, live) }, t("show")) },
      ],
      tasks.items, t("nothing"),
    ),
  );
}

const status = (word) =>
  el("span", { class: `tag ${{ COMPLETED: "good", PARTIAL: "warn", FAILED: "bad", CANCELLED: "warn" }[word] ?? ""}` }, word);

/** A form made from the tool's own schema: a new parameter needs no new page. */
function order(tool, live) {
  const estimate = el("p", { class: "soft", "aria-live": "polite" });
  const inputs = [...tool.inputs, ...tool.optionalInputs];
  const names = Object.entries(tool.params.properties ?? {});
  const submit = async (values, element) => {
    const files = Object.fromEntries(inputs.map((name) => [name, element.elements[`input:${name}`].files[0]]));
    const uploaded = {};
    for (const [name, file] of Object.entries(files)) if (file) uploaded[name] = await upload(file);
    const body = { tool: tool.tool, inputs: uploaded, count: Number(values.count), params: chosen(names, values) };
    const price = await post("/tasks/estimate", body);
    estimate.textContent = `${number(price.pricePoints)} ${t("points")} · ${price.lane} · ${price.etaEndSeconds} s`;
    const task = await postOnce("/tasks", body);
    watch(task.taskId, live);
  };
  return form({}, submit,
    inputs.map((name) => field(`${t("picture")}: ${name}`, {
      name: `input:${name}`, type: "file", accept: "image/png,image/jpeg,image/webp", required: tool.inputs.includes(name),
    })),
    field(t("count"), { name: "count", type: "number", min: tool.count.minimum, max: tool.count.maximum, value: tool.count.default }),
    el("details", {}, el("summary", {}, t("options")), el("div", { class: "grid" }, names.map(([name, schema]) => parameter(name, schema)))),
    el("p", {}, el("button", {}, t("submit"))),
    estimate,
  );
}

function parameter(name, schema) {
  const preset = schema.default ?? "";
  if (schema.enum) return field(name, { name, value: preset }, [...(schema.default === undefined ? [["", "–"]] : []), ...schema.enum.map((one) => [one, one])]);
  if (schema.type === "boolean") return field(name, { name, value: String(preset) }, [["true", t("yes")], ["false", t("no")]]);
  if (schema.type === "integer" || schema.type === "number")
    return field(name, { name, type: "number", min: schema.minimum, max: schema.maximum, step: schema.type === "integer" ? 1 : "any", value: preset });
  return field(name, { name, value: preset, maxlength: schema.maxLength, pattern: schema.pattern });
}

function chosen(names, values) {
  const read = { integer: Number, number: Number, boolean: (text) => text === "true" };
  return Object.fromEntries(names.filter(([name]) => values[name] !== "" && values[name] !== undefined)
    .map(([name, schema]) => [name, (read[schema.type] ?? String)(values[name])]));
}

/** Straight into the bucket: the picture never passes through a function. */
async function upload(file) {
  const place = await post("/uploads", { contentType: file.type, bytes: file.size });
  // A browser sets the length itself and refuses to be told.
  const headers = Object.fromEntries(Object.entries(place.headers ?? {}).filter(([name]) => name.toLowerCase() !== "content-length"));
  const answer = await fetch(place.url, { method: place.method, headers, body: file });
  if (!answer.ok) throw new Error(`${t("uploadFailed")} (${answer.status})`);
  return place.inputId;
}

let watching = 0;

/** Follow a task: its WebSocket events say when to look, and a slow poll covers what they miss. */
async function watch(taskId, place) {
  const turn = (watching += 1);
  let wake = () => {};
  const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws?token=${session.tokens.accessToken}`);
  socket.addEventListener("message", ({ data }) => JSON.parse(data).taskId === taskId && wake());
  try {
    for (;;) {
      const task = await get(`/tasks/${taskId}`);
      if (turn !== watching) return;
      place.replaceChildren(view(task, place));
      if (ENDED.has(task.status) || !place.isConnected) return;
      await new Promise((done) => {
        wake = done;
        setTimeout(done, POLL_MS);
      });
    }
  } catch (error) {
    toast(error.message);
  } finally {
    socket.close();
  }
}

function view(task, place) {
  return el("div", { class: "card" },
    el("div", { class: "row" }, el("strong", {}, task.tool), status(task.status), el("span", { class: "soft" }, `${task.progress} %`),
      !ENDED.has(task.status) && el("button", { class: "quiet", onclick: () => post(`/tasks/${task.taskId}/cancel`).catch((error) => toast(error.message)) }, t("cancel")),
      !ENDED.has(task.status) && el("button", { class: "quiet", onclick: () => why(task.taskId, place) }, t("why"))),
    el("div", { class: "dag" }, layers(task.nodes).map((layer) => el("div", {}, layer.map((node) =>
      el("div", { class: `node ${node.status.toLowerCase()}`, title: node.error?.message },
        el("span", {}, node.name), el("span", { class: "soft" }, node.status),
        el("progress", { max: 100, value: node.status === "COMPLETED" ? 100 : node.progress, "aria-label": node.name })))))),
    task.error && el("p", { class: "minus" }, task.error.message ?? JSON.stringify(task.error)),
    el("div", { class: "grid" }, task.results.map((result) =>
      el("figure", {}, el("img", { src: result.url, alt: result.name, width: result.width, height: result.height, loading: "lazy" }),
        el("figcaption", {}, el("a", { href: result.url, download: result.name }, `${result.name} ${result.width}×${result.height}`))))),
  );
}

/** Nodes by how far they are from the entry: what stands side by side can run side by side. */
function layers(nodes) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const depth = new Map();
  const of = (node) => {
    if (!depth.has(node.name)) depth.set(node.name, Math.max(-1, ...node.dependsOn.map((name) => of(byName.get(name)))) + 1);
    return depth.get(node.name);
  };
  const made = [];
  for (const node of nodes) (made[of(node)] ??= []).push(node);
  return made;
}

async function why(taskId, place) {
  const { nodes } = await get(`/tasks/${taskId}/why`);
  place.append(table(
    [
      { title: t("name"), cell: (node) => node.name },
      { title: t("why"), cell: (node) => t(`waiting_${node.waitingFor}`) },
      { title: t("before"), number: true, cell: (node) => node.position ?? "–" },
      { title: "s", number: true, cell: (node) => node.etaSeconds ?? "–" },
    ],
    nodes, t("nothing"),
  ));
}
