import { get, post } from "./api.js";
import { attempt, el, field, form, short, table, tag, toast } from "./dom.js";
import { number, t, time } from "./i18n.js";

/** The dead-letter queues: read messages, resend them, or discard them with a reason. */
export async function deadLetters(me, redraw) {
  const { items } = await get("/ops/dlq");
  const open = el("div", { "data-keep": true, "aria-live": "polite" });
  return el("div", {},
    el("h2", {}, t("deadLetters")), el("p", { class: "soft" }, t("deadLettersHint")),
    table(
      [
        { title: t("queue"), cell: (one) => one.queue },
        { title: t("deadLetters"), number: true, cell: (one) => tag(number(one.depth), one.depth ? "bad" : "good") },
        { title: "", cell: (one) => one.depth > 0 && el("button", { class: "quiet", "aria-label": `${t("show")} ${one.queue}`,
          onclick: attempt(async () => open.replaceChildren(await queue(one.queue, me, redraw))) }, t("show")) },
      ],
      items, t("nothing"),
    ),
    open,
  );
}

async function queue(name, me, redraw) {
  const { items } = await get(`/ops/dlq/${name}`);
  const chosen = new Set();
  const ids = () => (chosen.size ? { messageIds: [...chosen] } : {});
  const move = async (verb, body) => {
    const { count } = await post(`/ops/dlq/${name}/${verb}`, body);
    toast(`${t(`moved_${verb}`)}: ${number(count)}`);
    redraw();
  };
  return el("div", {},
    el("h2", {}, name),
    table(
      [
        { title: "", cell: (one) => el("input", { type: "checkbox", "aria-label": one.messageId,
          onchange: ({ target }) => (target.checked ? chosen.add(one.messageId) : chosen.delete(one.messageId)) }) },
        { title: t("message"), cell: (one) => short(one.messageId) },
        { title: t("when"), cell: (one) => time(one.sentAt) },
        { title: t("tries"), number: true, cell: (one) => number(one.receiveCount) },
        { title: t("content"), cell: (one) => el("code", { class: "clip wide", title: one.body }, one.body) },
      ],
      items, t("nothing"),
    ),
    me.permissions.includes("ops.write") && form({ class: "row" }, ({ reason }) => move("discard", { ...ids(), reason }),
      el("button", { type: "button", onclick: attempt(() => move("replay", ids())) }, t("sendBack")),
      field(t("reason"), { name: "reason", required: true, maxlength: 500 }),
      el("button", { class: "quiet" }, t("discard"))),
    el("p", { class: "soft" }, t("noneChosen")),
  );
}
