import { GiftOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link, Navigate } from "react-router";
import { api, call } from "@/api/client";
import { useLabel } from "@/api/dictionaries";
import { queries, toolTitle, useTools, useUser } from "@/api/queries";
import type { Tool } from "@/api/types";
import { points, useT, valueText } from "@/i18n";
import { WORDS, type Word } from "@/i18n/words";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { TaskTile } from "./thumbs";
import { EXAMPLES, exampleOf, REFRAMED, SAMPLES, sampleOf } from "./tools";
import "./studio.css";

const RECENT = 8;
const GROUPS = ["smart_edit", "product_picture", "ai_model", "batch"];

/** The first page: trial points, the newest tasks, and every tool with before and after. */
export default function Gallery() {
  const t = useT();
  const me = useUser();
  const tools = useTools();
  const tasks = useInfiniteQuery({
    queryKey: ["tasks", { limit: RECENT }],
    initialPageParam: undefined as string | undefined,
    queryFn: () => call(api.GET("/api/v1/tasks", { params: { query: { limit: RECENT, userId: me.userId } } })),
    getNextPageParam: () => undefined,
    enabled: me.permissions.includes("task.read"),
  });
  const label = useLabel();
  if (!me.permissions.includes("task.submit")) return <Navigate to={me.permissions.includes("task.read") ? "/library" : me.permissions.includes("ops.read") ? "/ops" : "/account"} replace />;
  const recent = tasks.data?.pages[0]?.items ?? [];
  const groups = [...new Set([...GROUPS, ...(tools.data ?? []).map((tool) => tool.group)])].filter((group) => tools.data?.some((tool) => tool.group === group));
  return (
    <Page title={t("navStudio")} text={t("studioText")}>
      {tasks.isSuccess && (recent.length === 0 || me.trialPoints !== null) ? <Welcome isFirst={recent.length === 0} /> : null}
      {recent.length ? (
        <section aria-labelledby="recent">
          <div className="row between" style={{ marginBottom: 12 }}>
            <h2 id="recent">{t("recent")}</h2>
            <Link to="/library">{t("recentAll")}</Link>
          </div>
          <ul className="recent">
            {recent.map((task) => (
              <li key={task.taskId}>
                <TaskTile task={task} />
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      {tools.error ? <Fault error={tools.error} retry={() => void tools.refetch()} /> : null}
      {tools.isPending ? <Waiting /> : null}
      {groups.map((group) => (
        <section key={group} className="gallery-group" aria-label={label("groups", group)}>
          <h2>{label("groups", group) === group ? valueText("group", group) : label("groups", group)}</h2>
          <ul className="gallery">
            {tools.data
              ?.filter((tool) => tool.group === group)
              .map((tool) => (
                <li key={tool.tool}>
                  <ToolCard tool={tool} />
                </li>
              ))}
          </ul>
        </section>
      ))}
    </Page>
  );
}

export function toolText(tool: string, t: (key: Word) => string): string {
  const key = `toolText_${tool}`;
  return key in WORDS ? t(key as Word) : "";
}

function ToolCard({ tool }: { tool: Tool }) {
  const t = useT();
  const example = EXAMPLES[tool.tool];
  return (
    <Link className="tool-card" to={`/studio/${tool.tool}`}>
      {example ? (
        <span className={`tool-pictures checker ${REFRAMED.has(tool.tool) ? "inset" : "split"}`} aria-hidden="true">
          <span className="part checker">
            <img src={exampleOf(tool.tool)} alt="" loading="lazy" />
          </span>
          <span className="part first">
            <img src={sampleOf(example)} alt="" loading="lazy" />
          </span>
        </span>
      ) : null}
      <span className="tool-words">
        <h3>{toolTitle(tool, tool.tool)}</h3>
        <p>{toolText(tool.tool, t)}</p>
        <span className="tool-foot">
          <span className="digits">{t("eachPicture", { points: points(tool.pricePoints) })}</span>
          {tool.isDraft ? <span className="tag warn">{t("draft")}</span> : null}
        </span>
      </span>
    </Link>
  );
}

function Welcome({ isFirst }: { isFirst: boolean }) {
  const t = useT();
  const me = useUser();
  const trial = me.trialPoints;
  const [taken, setTaken] = useState<number | null>(null);
  const take = useMutation({
    mutationFn: () => call(api.POST("/api/v1/points/trial")),
    onSuccess: (entry) => {
      setTaken(entry.balanceDelta);
      void queries.invalidateQueries({ queryKey: ["me"] });
    },
  });
  const shop = me.tenantName;
  const canTake = trial !== null && taken === null;
  if (!canTake && !isFirst) return null;
  return (
    <section className="card hero" aria-labelledby="welcome">
      <div className="stack tight">
        <h2 id="welcome">{shop ? t("welcomeTitle", { shop }) : t("welcomeFirst")}</h2>
        <p className="soft" role={taken === null ? undefined : "status"}>
          {taken !== null ? t("welcomeTaken", { points: points(taken) }) : canTake ? t("welcomeText", { points: points(trial) }) : t("welcomeFirstText")}
        </p>
        {canTake ? (
          <div>
            <Button type="primary" size="large" icon={<GiftOutlined />} loading={take.isPending} onClick={() => take.mutate()}>
              {t("welcomeTake", { points: points(trial) })}
            </Button>
          </div>
        ) : null}
        <Fault error={take.error} />
      </div>
      <div className="hero-samples">
        {SAMPLES.slice(0, 4).map((sample) => (
          <Link key={sample.name} to={`/studio/cutout?sample=${sample.name}`} aria-label={t("sampleUse", { name: t(`sample_${sample.name.replace("-", "_") as "bottle"}`) })}>
            <img src={sample.file} alt="" width="92" height="92" />
          </Link>
        ))}
      </div>
    </section>
  );
}
