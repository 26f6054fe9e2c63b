import { Button, Input } from "antd";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { dateTime, useT } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { usePaged } from "@/ui/lists";
import { shortId, useTenantName } from "./data";

type Entry = Schemas["AuditBody"] & { actorEmail?: string | null; actorName?: string | null; tenantName?: string | null };

const EMPTY = { actor: "", action: "", target: "", from: "", to: "" };
const iso = (local: string) => (local ? new Date(local).toISOString() : "");

export default function Audit() {
  const t = useT();
  const tenantName = useTenantName();
  const [draft, setDraft] = useState(EMPTY);
  const [filter, setFilter] = useState(EMPTY);
  const found = usePaged<Entry>(["ops", "audit"], "/ops/audit", { ...filter, actor: filter.actor.trim(), action: filter.action.trim(), target: filter.target.trim(), from: iso(filter.from), to: iso(filter.to) });
  const field = (name: keyof typeof EMPTY, label: string, more: object = {}) => (
    <label>
      {label}
      <Input allowClear value={draft[name]} onChange={({ target }) => setDraft({ ...draft, [name]: target.value })} {...more} />
    </label>
  );
  return (
    <Page title={t("opsAudit")} text={t("opsAuditHint")}>
      <form
        className="ops-filter"
        onSubmit={(event) => {
          event.preventDefault();
          setFilter(draft);
        }}
      >
        {field("actor", t("opsActor"), { placeholder: t("opsActorHint"), maxLength: 200 })}
        {field("action", t("opsAction"), { placeholder: "lane.changed", maxLength: 100 })}
        {field("target", t("opsTarget"), { maxLength: 200 })}
        {field("from", t("opsFrom"), { type: "datetime-local" })}
        {field("to", t("opsTo"), { type: "datetime-local" })}
        <Button type="primary" htmlType="submit">
          {t("opsSearch")}
        </Button>
      </form>
      <DataTable<Entry>
        label={t("opsAudit")}
        source={found}
        rowKey={(entry) => entry.auditId}
        empty={t("opsAuditEmpty")}
        columns={[
          { title: t("opsWhen"), cell: (entry) => dateTime(entry.at) },
          { title: t("opsActor"), cell: (entry) => (entry.actorId ? <span title={entry.actorId}>{entry.actorName ?? entry.actorEmail ?? shortId(entry.actorId)}</span> : t("opsPlatform")) },
          { title: t("opsAction"), cell: (entry) => <code>{entry.action}</code> },
          { title: t("opsTarget"), cell: (entry) => <span title={entry.target} translate="no">{shortId(entry.target)}</span> },
          { title: t("opsTenant"), cell: (entry) => (entry.tenantId ? (entry.tenantName ?? tenantName(entry.tenantId)) : "–") },
          {
            title: t("opsDetail"),
            cell: (entry) =>
              Object.keys(entry.details).length === 0 ? (
                "–"
              ) : (
                <details>
                  <summary>
                    <code className="ops-clip">{JSON.stringify(entry.details)}</code>
                  </summary>
                  <pre className="ops-code">{JSON.stringify(entry.details, null, 2)}</pre>
                </details>
              ),
          },
        ]}
      />
    </Page>
  );
}
