import { PictureOutlined, SearchOutlined } from "@ant-design/icons";
import { Button, Select } from "antd";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useId } from "react";
import { Link, useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { label as dictionary, useDictionaries, useLabel } from "@/api/dictionaries";
import { useUser } from "@/api/queries";
import type { TaskStatus } from "@/api/types";
import { useLanguage, useT } from "@/i18n";
import { EXAMPLES } from "@/pages/studio/tools";
import { TaskTile } from "@/pages/studio/thumbs";
import { Empty } from "@/ui/Empty";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import "@/pages/studio/studio.css";
import "@/pages/task/task.css";

const PAGE = 30;
const STATES: TaskStatus[] = ["QUEUED", "PROCESSING", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"];

/** All tasks of the shop as pictures. The filters are in the address, so that a link keeps them. */
export default function Library() {
  const t = useT();
  const me = useUser();
  const label = useLabel();
  useLanguage();
  useDictionaries();
  const [search, setSearch] = useSearchParams();
  const [tool, status, who, from, to] = ["tool", "status", "who", "from", "to"].map((name) => search.get(name) ?? "") as [string, string, string, string, string];
  const set = (name: string, value: string) =>
    setSearch(
      (before) => {
        if (value) before.set(name, value);
        else before.delete(name);
        return before;
      },
      { replace: true },
    );
  const isFiltered = [tool, status, who, from, to].some(Boolean);
  const tasks = useInfiniteQuery({
    queryKey: ["tasks", { tool, status, who, from, to }],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      call(
        api.GET("/api/v1/tasks", {
          params: {
            query: {
              limit: PAGE,
              cursor: pageParam,
              tool: tool || undefined,
              status: (status || undefined) as TaskStatus | undefined,
              userId: who === "me" ? me.userId : undefined,
              from: from ? new Date(`${from}T00:00:00`).toISOString() : undefined,
              to: to ? new Date(Date.parse(`${to}T00:00:00`) + 86_400_000).toISOString() : undefined,
            },
          },
        }),
      ),
    getNextPageParam: (page) => page.nextCursor ?? undefined,
  });
  const items = (tasks.data?.pages ?? []).flatMap((page) => page.items);
  const days = me.artefactDays;
  const [toolId, statusId, whoId, fromId, toId] = [useId(), useId(), useId(), useId(), useId()];
  return (
    <Page title={t("navLibrary")} text={days ? t("libraryText", { days }) : t("libraryTextPlain")}>
      <div className="filters" role="search" aria-label={t("navLibrary")}>
        <div className="field">
          <label htmlFor={toolId}>{t("filterTool")}</label>
          <Select id={toolId} value={tool} onChange={(value) => set("tool", value)} options={[{ value: "", label: t("all") }, ...Object.keys(EXAMPLES).map((one) => ({ value: one, label: label("tools", one) }))]} />
        </div>
        <div className="field">
          <label htmlFor={statusId}>{t("filterStatus")}</label>
          <Select id={statusId} value={status} onChange={(value) => set("status", value)} options={[{ value: "", label: t("all") }, ...STATES.map((one) => ({ value: one, label: dictionary("task_states", one) ?? one }))]} />
        </div>
        <div className="field">
          <label htmlFor={whoId}>{t("filterWho")}</label>
          <Select
            id={whoId}
            value={who}
            onChange={(value) => set("who", value)}
            options={[
              { value: "", label: t("all") },
              { value: "me", label: t("filterMine") },
            ]}
          />
        </div>
        <div className="field">
          <label htmlFor={fromId}>{t("filterFrom")}</label>
          <input id={fromId} type="date" value={from} max={to || undefined} onChange={(event) => set("from", event.target.value)} />
        </div>
        <div className="field">
          <label htmlFor={toId}>{t("filterTo")}</label>
          <input id={toId} type="date" value={to} min={from || undefined} onChange={(event) => set("to", event.target.value)} />
        </div>
        {isFiltered ? <Button onClick={() => setSearch({}, { replace: true })}>{t("filterReset")}</Button> : null}
      </div>
      {tasks.error ? <Fault error={tasks.error} retry={() => void tasks.refetch()} /> : null}
      {tasks.isPending ? <Waiting /> : null}
      {tasks.isSuccess && items.length === 0 ? (
        isFiltered ? (
          <Empty icon={<SearchOutlined />} title={t("libraryNone")} text={t("libraryNoneText")} />
        ) : (
          <Empty icon={<PictureOutlined />} title={t("libraryEmpty")} text={t("libraryEmptyText")}>
            <Link to="/studio/cutout">{dictionary("tools", "cutout")}</Link>
          </Empty>
        )
      ) : null}
      <ul className="library">
        {items.map((task) => (
          <li key={task.taskId}>
            <TaskTile task={task} />
          </li>
        ))}
      </ul>
      {tasks.hasNextPage ? (
        <div style={{ textAlign: "center" }}>
          <Button loading={tasks.isFetchingNextPage} onClick={() => void tasks.fetchNextPage()}>
            {t("more")}
          </Button>
        </div>
      ) : null}
    </Page>
  );
}
