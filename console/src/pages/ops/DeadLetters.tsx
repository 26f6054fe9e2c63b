import { App, Button } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { api, call } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, number, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { search, usePaged } from "@/ui/lists";
import { useReason } from "@/ui/useReason";
import { shortId, useDeadLetterQueues } from "./data";

type Queue = Schemas["DeadQueueBody"];
type Letter = Schemas["DeadLetterBody"];

export default function DeadLetters() {
  const t = useT();
  const queues = useDeadLetterQueues();
  const [open, setOpen] = useState<string | null>(null);
  const filled = (queues.data ?? []).toSorted((a, b) => b.depth - a.depth || a.queue.localeCompare(b.queue));
  return (
    <Page title={t("opsDeadLetters")} text={t("opsDeadLettersHint")}>
      <div className="stack loose">
        <DataTable<Queue>
          label={t("opsDeadLetters")}
          source={{ items: filled, error: queues.error, isPending: queues.isPending, refetch: () => void queues.refetch() }}
          rowKey={(queue) => queue.queue}
          empty={t("opsNothing")}
          columns={[
            { title: t("opsQueue"), cell: (queue) => <>{valueText("dead", queue.queue)} <code className="soft">{queue.queue}</code></> },
            { title: t("opsMessages"), isNumber: true, cell: (queue) => <span className={`tag ${queue.depth ? "bad" : "good"}`}>{number(queue.depth)}</span> },
            {
              title: t("opsActions"),
              isQuiet: true,
              cell: (queue) =>
                queue.depth > 0 ? (
                  <Button size="small" aria-label={`${t("opsReadLetters")} ${valueText("dead", queue.queue)}`} onClick={() => setOpen(queue.queue)}>
                    {t("opsReadLetters")}
                  </Button>
                ) : null,
            },
          ]}
        />
        {open ? <Letters key={open} queue={open} /> : null}
      </div>
    </Page>
  );
}

/** The messages of a queue. An act concerns the ticked messages only. */
function Letters({ queue }: { queue: string }) {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const { message } = App.useApp();
  const mayWrite = useAllowed("ops.write");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const found = usePaged<Letter>(["ops", "dlq", queue], `/ops/dlq/${queue}`);
  const name = valueText("dead", queue);
  const messageIds = [...chosen];
  const done = async (text: string) => {
    void message.success(text);
    setChosen(new Set());
    await client.invalidateQueries({ queryKey: ["ops", "dlq"] });
  };
  const path = { queue };
  const replay = () =>
    ask({
      title: t("opsReplayTitle", { count: number(chosen.size) }),
      text: t("opsReplayText", { queue: name }),
      action: t("opsSendBack"),
      isReasonNeeded: false,
      run: async () => {
        const { count } = await call(api.POST("/api/v1/ops/dlq/{queue}/replay", { params: { path }, body: { messageIds } }));
        await done(t("opsSentBack", { count: number(count) }));
      },
    });
  const discard = () =>
    ask({
      title: t("opsDiscardTitle", { count: number(chosen.size) }),
      text: t("opsDiscardText", { queue: name }),
      action: t("opsDiscard"),
      isDanger: true,
      run: async (reason) => {
        const { count } = await call(api.POST("/api/v1/ops/dlq/{queue}/discard", { params: { path }, body: { messageIds, reason } }));
        await done(t("opsDiscarded", { count: number(count) }));
      },
    });
  return (
    <section className="stack" aria-labelledby="ops-letters">
      <div className="row between">
        <h2 id="ops-letters">{name}</h2>
        {mayWrite ? (
          <div className="row">
            <span className="soft">{t("opsChosen", { count: number(chosen.size) })}</span>
            <Button disabled={chosen.size === 0} onClick={replay}>
              {t("opsSendBack")}
            </Button>
            <Button danger disabled={chosen.size === 0} onClick={discard}>
              {t("opsDiscard")}
            </Button>
          </div>
        ) : null}
      </div>
      <DataTable<Letter>
        label={name}
        source={found}
        rowKey={(letter) => letter.messageId}
        rowName={(letter) => letter.messageId}
        choice={mayWrite ? { chosen, change: setChosen } : undefined}
        empty={t("opsQueueEmpty")}
        columns={[
          { title: t("opsMessage"), cell: (letter) => <LetterName queue={queue} letter={letter} /> },
          { title: t("opsWhen"), cell: (letter) => dateTime(letter.sentAt) },
          { title: t("opsReceived"), isNumber: true, cell: (letter) => number(letter.receiveCount) },
          {
            title: t("opsContent"),
            cell: (letter) => (
              <details>
                <summary>
                  <code className="ops-clip">{letter.body}</code>
                </summary>
                <pre className="ops-code">{readable(letter.body)}</pre>
              </details>
            ),
          },
        ]}
      />
    </section>
  );
}

/** The dead letter of a run leads to the run. */
function LetterName({ queue, letter }: { queue: string; letter: Letter }) {
  const name = <code title={letter.messageId}>{shortId(letter.messageId)}</code>;
  const tenantId = queue === "runs" ? tenantOf(letter.body) : null;
  return tenantId ? <Link to={`/jobs/runs/${letter.messageId}${search({ tenantId })}`}>{name}</Link> : name;
}

function tenantOf(body: string): string | null {
  try {
    const found = (JSON.parse(body) as { tenantId?: unknown }).tenantId;
    return typeof found === "string" ? found : null;
  } catch {
    return null;
  }
}

function readable(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
