import { Button } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "react-router";
import { api, call } from "@/api/client";
import { useLabel } from "@/api/dictionaries";
import { useAllowed } from "@/api/queries";
import { dateTime, number, relative, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Page } from "@/ui/Page";
import { useReason } from "@/ui/useReason";
import { useTenantName, type Worker } from "./data";

export default function Workers() {
  const t = useT();
  const label = useLabel();
  const tenantName = useTenantName();
  const ask = useReason();
  const client = useQueryClient();
  const mayWrite = useAllowed("ops.write");
  const workers = useQuery({ queryKey: ["ops", "workers"], queryFn: async () => (await call(api.GET("/api/v1/ops/workers", { params: { query: { limit: 100 } } }))).items, refetchInterval: 5000 });
  const drain = (worker: Worker) =>
    ask({
      title: t("opsDrainTitle", { worker: worker.workerId }),
      text: t("opsDrainText", { running: number(worker.nodes.length) }),
      action: t("opsDrain"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        await call(api.POST("/api/v1/ops/workers/{worker_id}/drain", { params: { path: { worker_id: worker.workerId } } }));
        await client.invalidateQueries({ queryKey: ["ops", "workers"] });
      },
    });
  return (
    <Page title={t("opsWorkers")} text={t("opsWorkersHint")}>
      <DataTable<Worker>
        label={t("opsWorkers")}
        source={{ items: workers.data ?? [], error: workers.error, isPending: workers.isPending, refetch: () => void workers.refetch() }}
        rowKey={(worker) => worker.workerId}
        empty={t("opsNoWorkers")}
        columns={[
          {
            title: t("opsWorker"),
            cell: (worker) => (
              <>
                <strong translate="no">{worker.workerId}</strong>
                <br />
                <span className="soft">
                  {valueText("pool", worker.pool)} · <code>{worker.engine}</code>
                </span>
              </>
            ),
          },
          { title: t("opsTypes"), cell: (worker) => worker.types.map((type) => label("node_types", type)).join(", ") },
          {
            title: t("opsCurrent"),
            cell: (worker) =>
              worker.nodes.length === 0 ? (
                <span className="soft">{t("opsIdle")}</span>
              ) : (
                worker.nodes.map((node) => (
                  <div key={`${node.taskId}${node.node}`}>
                    <Link to={`/ops/tasks/${node.taskId}`}>
                      <span translate="no">{node.node}</span> ({label("node_types", node.type)})
                    </Link>{" "}
                    <span className="soft">
                      {tenantName(node.tenantId)} · {t("opsAttempt", { number: node.attempt })} · {relative(node.startedAt)}
                    </span>
                  </div>
                ))
              ),
          },
          { title: t("opsSlots"), isNumber: true, cell: (worker) => `${number(worker.nodes.length)} / ${number(worker.slots)}` },
          { title: t("opsState"), cell: (worker) => <span className={`tag ${worker.draining ? "warn" : "good"}`}>{t(worker.draining ? "opsDraining" : "opsTakesWork")}</span> },
          { title: t("opsLastBeat"), cell: (worker) => <span title={dateTime(worker.lastBeatAt)}>{relative(worker.lastBeatAt)}</span> },
          mayWrite && {
            title: t("opsActions"),
            isQuiet: true,
            cell: (worker) =>
              worker.draining ? null : (
                <Button size="small" aria-label={`${t("opsDrain")} ${worker.workerId}`} onClick={() => drain(worker)}>
                  {t("opsDrain")}
                </Button>
              ),
          },
        ]}
      />
    </Page>
  );
}
