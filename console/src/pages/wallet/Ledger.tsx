import { DownloadOutlined } from "@ant-design/icons";
import { Button, Input, Select } from "antd";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { api, call } from "@/api/client";
import type { Schemas } from "@/api/types";
import { dateTime, number, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { saveText, usePaged } from "@/ui/lists";

type Entry = Schemas["EntryBody"];

const KINDS = ["RECHARGE", "GIFT", "FREEZE", "CONFIRM", "CANCEL", "REFUND", "TRANSFER_IN", "TRANSFER_OUT", "ADJUST"] as const;
type Kind = (typeof KINDS)[number];

/** The start of a day and of the day after it, in the zone of the browser. */
const dayStart = (day: string, plus = 0): string | undefined => (day ? new Date(new Date(`${day}T00:00:00`).getTime() + plus * 86_400_000).toISOString() : undefined);

export default function Ledger() {
  const t = useT();
  const [kind, setKind] = useState<Kind | undefined>();
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const filter = { kind, from: dayStart(from), to: dayStart(to, 1) };
  const found = usePaged<Entry>(["points", "ledger"], "/points/ledger", filter);
  const csv = useMutation({
    mutationFn: () => call(api.GET("/api/v1/points/ledger", { params: { query: { ...filter, format: "csv" } }, parseAs: "text" })),
    onSuccess: (text) => saveText(String(text), `points-${new Date().toISOString().slice(0, 10)}.csv`, "text/csv"),
  });
  const signed = (value: number) => <span className={value > 0 ? "wal-plus" : value < 0 ? "wal-minus" : "soft"}>{value > 0 ? `+${number(value)}` : number(value)}</span>;
  return (
    <div className="stack">
      <div className="wal-filter">
        <label>
          {t("walKind")}
          <Select allowClear placeholder={t("all")} style={{ minWidth: 150 }} value={kind} onChange={setKind} options={KINDS.map((value) => ({ value, label: valueText("kind", value) }))} />
        </label>
        <label>
          {t("walFrom")}
          <Input type="date" value={from} onChange={({ target }) => setFrom(target.value)} />
        </label>
        <label>
          {t("walTo")}
          <Input type="date" value={to} onChange={({ target }) => setTo(target.value)} />
        </label>
        <Button icon={<DownloadOutlined />} loading={csv.isPending} onClick={() => csv.mutate()}>
          {t("walCsv")}
        </Button>
      </div>
      <Fault error={csv.error} />
      <DataTable<Entry>
        label={t("walLedger")}
        source={found}
        rowKey={(entry) => entry.entryId}
        empty={t("walNoEntries")}
        columns={[
          { title: t("walWhen"), cell: (entry) => dateTime(entry.createdAt) },
          { title: t("walKind"), cell: (entry) => valueText("kind", entry.kind) },
          { title: t("walChange"), isNumber: true, cell: (entry) => signed(entry.balanceDelta) },
          { title: t("walHeldChange"), isNumber: true, cell: (entry) => signed(entry.frozenDelta) },
          { title: t("balance"), isNumber: true, cell: (entry) => number(entry.balance) },
          { title: t("walFor"), cell: (entry) => <Reference reference={entry.reference} /> },
        ]}
      />
    </div>
  );
}

/** What an entry belongs to: a task, an order or a refund that can be opened. */
function Reference({ reference }: { reference: string }) {
  const t = useT();
  const task = /^task:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/.exec(reference)?.[1];
  const id = task ? `task_${task.replaceAll("-", "")}` : (reference.split(":").find((part) => /^(task|ord|ref)_/.test(part)) ?? reference);
  if (id.startsWith("task_")) return <Link to={`/tasks/${id}`}>{t("walTask")}</Link>;
  if (id.startsWith("ref_")) return <Link to="/wallet/orders">{t("walRefund")}</Link>;
  if (id.startsWith("ord_")) return <Link to={`/wallet/pay/${id}`}>{t("walOrder")}</Link>;
  return <span className="soft wal-clip" title={reference}>{reference || "–"}</span>;
}
