import { Button } from "antd";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import type { Schemas } from "@/api/types";
import { dateTime, number, useT, valueText, yuan } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { usePaged } from "@/ui/lists";
import { shortId, useInvariants } from "./data";

type Check = Schemas["InvariantsBody"]["checks"][number];
type Day = Schemas["BillDayBody"];
type Difference = Schemas["DifferenceBody"];

const DAY_STYLES: Record<string, string> = { DONE: "good", COMPARED: "warn", WAITING: "", FAILED: "bad" };
const count = (value: number | null) => (value === null ? "–" : number(value));

/** The invariants, and WeChat's bills compared with the orders. */
export default function Checks() {
  const t = useT();
  const live = useInvariants();
  const full = useMutation({ mutationFn: () => call(api.GET("/api/v1/ops/invariants", { params: { query: { full: true } } })) });
  const found = full.data ?? live.data;
  const days = usePaged<Day>(["ops", "reconciliations"], "/ops/reconciliations");
  const [open, setOpen] = useState<string | null>(null);
  return (
    <Page
      title={t("opsChecks")}
      text={t("opsChecksHint")}
      actions={
        <Button onClick={() => full.mutate()} loading={full.isPending}>
          {t("opsCheckAll")}
        </Button>
      }
    >
      <div className="stack loose">
        <section className="stack" aria-labelledby="ops-invariants">
          <h2 id="ops-invariants">
            {t("opsInvariants")} {found ? <span className={`tag ${found.ok ? "good" : "bad"}`}>{t(found.ok ? "opsAllHold" : "opsBroken")}</span> : null}
          </h2>
          <Fault error={full.error} />
          <DataTable<Check>
            label={t("opsInvariants")}
            source={{ items: found?.checks ?? [], error: live.error, isPending: live.isPending, refetch: () => void live.refetch() }}
            rowKey={(check) => check.name}
            empty={t("opsNothing")}
            columns={[
              { title: t("opsCheck"), cell: (check) => valueText("invariant", check.name) },
              { title: t("opsState"), cell: (check) => <span className={`tag ${check.ok ? "good" : "bad"}`}>{t(check.ok ? "opsHolds" : "opsBroken")}</span> },
              { title: t("opsRowsChecked"), isNumber: true, cell: (check) => number(check.checked) },
              {
                title: t("opsViolations"),
                cell: (check) =>
                  check.violations.length === 0 ? (
                    "–"
                  ) : (
                    <details>
                      <summary>{number(check.violations.length)}</summary>
                      <pre className="ops-code">{JSON.stringify(check.violations, null, 1)}</pre>
                    </details>
                  ),
              },
            ]}
          />
        </section>
        <section className="stack" aria-labelledby="ops-bills">
          <div>
            <h2 id="ops-bills">{t("opsBills")}</h2>
            <p className="soft">{t("opsBillsHint")}</p>
          </div>
          <DataTable<Day>
            label={t("opsBills")}
            source={days}
            rowKey={(day) => day.day}
            empty={t("opsNoBills")}
            columns={[
              { title: t("opsDay"), cell: (day) => day.day },
              { title: t("opsState"), cell: (day) => <span className={`tag ${DAY_STYLES[day.status] ?? ""}`}>{valueText("bill", day.status)}</span> },
              { title: t("opsPayments"), isNumber: true, cell: (day) => count(day.payments) },
              { title: t("opsRefunds"), isNumber: true, cell: (day) => count(day.refunds) },
              { title: t("opsTotal"), isNumber: true, cell: (day) => (day.totalFen === null ? "–" : yuan(day.totalFen)) },
              { title: t("opsDifferences"), isNumber: true, cell: (day) => count(day.differences) },
              {
                title: t("opsActions"),
                isQuiet: true,
                cell: (day) => (
                  <Button size="small" aria-label={`${t("opsShowDifferences")} ${day.day}`} onClick={() => setOpen(day.day)}>
                    {t("opsShowDifferences")}
                  </Button>
                ),
              },
            ]}
          />
          {open ? <Differences key={open} day={open} error={days.items.find((day) => day.day === open)?.lastError ?? null} /> : null}
        </section>
      </div>
    </Page>
  );
}

function Differences({ day, error }: { day: string; error: string | null }) {
  const t = useT();
  const found = usePaged<Difference>(["ops", "reconciliations", day], `/ops/reconciliations/${day}`);
  const fen = (value: number | null) => (value === null ? "–" : yuan(value));
  return (
    <div className="stack tight">
      <h3>{day}</h3>
      {error ? <p className="ops-fault">{error}</p> : null}
      <DataTable<Difference>
        label={`${t("opsDifferences")} ${day}`}
        source={found}
        rowKey={(one) => `${one.kind}${one.reference}`}
        empty={t("opsNoDifferences")}
        columns={[
          { title: t("opsKind"), cell: (one) => valueText("difference", one.kind) },
          { title: t("opsReference"), cell: (one) => <code title={one.reference}>{shortId(one.reference)}</code> },
          { title: t("opsOurs"), isNumber: true, cell: (one) => fen(one.oursFen) },
          { title: t("opsTheirs"), isNumber: true, cell: (one) => fen(one.theirsFen) },
          { title: t("opsBecame"), cell: (one) => <span className={`tag ${one.resolution === "OPEN" ? "bad" : "good"}`}>{valueText("resolution", one.resolution)}</span> },
          { title: t("opsWhen"), cell: (one) => dateTime(one.resolvedAt ?? one.foundAt) },
        ]}
      />
    </div>
  );
}
