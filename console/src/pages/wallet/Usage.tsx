import { Input, Segmented } from "antd";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, call } from "@/api/client";
import { useLabel } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { locale, number, points, useT } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Waiting } from "@/ui/Waiting";

type Used = Schemas["UsageLineBody"];

type Group = "day" | "tool" | "user";

const isoDay = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000 - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 10);

export default function Usage() {
  const t = useT();
  const label = useLabel();
  const seesAll = useAllowed("user.manage");
  const [group, setGroup] = useState<Group>("day");
  const [from, setFrom] = useState(() => isoDay(29));
  const [to, setTo] = useState(() => isoDay(0));
  const filter = { groupBy: group, from, to, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone };
  const found = useQuery({ queryKey: ["usage", filter], queryFn: () => call(api.GET("/api/v1/usage", { params: { query: { ...filter, limit: 100 } } })) });
  const nameOf = (one: Used): string =>
    group === "day"
      ? new Date(`${one.day}T00:00:00`).toLocaleDateString(locale(), { month: "short", day: "numeric", weekday: "short" })
      : group === "tool"
        ? toolName(one.tool ?? "", label)
        : (one.displayName ?? one.email ?? one.userId ?? "–");
  const items = (found.data?.items ?? []).toSorted((a, b) => (group === "day" ? (b.day ?? "").localeCompare(a.day ?? "") : b.points - a.points));
  const most = Math.max(1, ...items.map((one) => one.points));
  return (
    <div className="stack">
      <div className="wal-filter">
        <label>
          {t("walBy")}
          <Segmented<Group>
            value={group}
            onChange={setGroup}
            options={[
              { value: "day", label: t("walByDay") },
              { value: "tool", label: t("walByTool") },
              ...(seesAll ? [{ value: "user" as const, label: t("walByPerson") }] : []),
            ]}
          />
        </label>
        <label>
          {t("walFrom")}
          <Input type="date" value={from} max={to} onChange={({ target }) => target.value && setFrom(target.value)} />
        </label>
        <label>
          {t("walTo")}
          <Input type="date" value={to} min={from} onChange={({ target }) => target.value && setTo(target.value)} />
        </label>
      </div>
      {found.error ? <Fault error={found.error} retry={() => void found.refetch()} /> : found.isPending ? <Waiting /> : null}
      {found.data ? (
        <>
          <p>
            {t(found.data.scope === "tenant" ? "walUsedShop" : "walUsedOwn", { points: points(found.data.totalPoints), tasks: number(found.data.totalTasks) })}
          </p>
          <DataTable<Used>
            label={t("walUsage")}
            source={{ items }}
            rowKey={(one) => one.day ?? one.tool ?? one.userId ?? ""}
            empty={t("walNoUsage")}
            columns={[
              { title: t(group === "day" ? "walDay" : group === "tool" ? "walTool" : "walPerson"), cell: nameOf },
              {
                title: t("walShare"),
                cell: (one) => (
                  <div className="wal-bar" aria-hidden="true">
                    <i style={{ width: `${(one.points / most) * 100}%` }} />
                  </div>
                ),
              },
              { title: t("walPointsTitle"), isNumber: true, cell: (one) => number(one.points) },
              { title: t("walTasks"), isNumber: true, cell: (one) => number(one.tasks) },
              { title: t("walTexts"), isNumber: true, cell: (one) => number(one.texts) },
            ]}
          />
        </>
      ) : null}
    </div>
  );
}

function toolName(tool: string, label: ReturnType<typeof useLabel>): string {
  return tool.startsWith("text:") ? tool.slice(5) : label("tools", tool);
}
