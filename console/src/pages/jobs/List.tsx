import { CalendarOutlined } from "@ant-design/icons";
import { Button, Input, Modal, Select } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, call } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, number, relative, useLanguage, useT, valueText } from "@/i18n";
import { Act } from "@/ui/Act";
import { DataTable } from "@/ui/DataTable";
import { Empty } from "@/ui/Empty";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { saveText, usePaged } from "@/ui/lists";
import { JOB_STYLES, type Job } from "./data";

export default function List() {
  const t = useT();
  const navigate = useNavigate();
  const mayWrite = useAllowed("job.write");
  const [name, setName] = useState("");
  const [status, setStatus] = useState<string | undefined>();
  const [isImporting, setImporting] = useState(false);
  const found = usePaged<Job>(["jobs", useLanguage()], "/jobs", { name, status }, { everyMs: 20_000 });
  const isEmpty = !found.isPending && !found.error && found.items.length === 0 && !name && !status;
  const save = async () => {
    const text = await call(api.GET("/api/v1/jobs/export", { params: { query: { format: "json" } }, parseAs: "text" }));
    saveText(String(text), "jobs.json", "application/json");
  };
  return (
    <Page
      title={t("navJobs")}
      text={t("jobHint")}
      actions={
        mayWrite ? (
          <>
            <Button onClick={() => setImporting(true)}>{t("jobImport")}</Button>
            <Act size="middle" text={t("jobExport")} run={save} />
            <Button type="primary" onClick={() => void navigate("/jobs/new")}>
              {t("jobNew")}
            </Button>
          </>
        ) : null
      }
    >
      {isEmpty ? (
        <Empty icon={<CalendarOutlined />} title={t("jobNone")} text={t("jobNoneText")}>
          {mayWrite ? (
            <Button type="primary" onClick={() => void navigate("/jobs/new")}>
              {t("jobNew")}
            </Button>
          ) : null}
        </Empty>
      ) : (
        <div className="stack">
          <div className="row">
            <Input.Search allowClear enterButton={t("opsSearch")} aria-label={t("jobFind")} placeholder={t("jobFind")} onSearch={(value) => setName(value.trim())} style={{ maxWidth: 300 }} />
            <Select allowClear aria-label={t("jobStatus")} placeholder={t("jobStatus")} style={{ minWidth: 150 }} value={status} onChange={setStatus} options={["ACTIVE", "PAUSED", "COMPLETED"].map((value) => ({ value, label: valueText("job", value) }))} />
          </div>
          <DataTable<Job>
            label={t("navJobs")}
            source={found}
            rowKey={(job) => job.jobId}
            empty={t("jobNoMatch")}
            columns={[
              { title: t("jobName"), cell: (job) => <Link to={`/jobs/${job.jobId}`}>{job.name}</Link> },
              { title: t("jobWhen"), cell: (job) => job.description },
              { title: t("jobNext"), cell: (job) => (job.nextFireTime ? <span title={dateTime(job.nextFireTime)}>{relative(job.nextFireTime)}</span> : "–") },
              { title: t("jobDoes"), cell: (job) => valueText("jobTask", (job.task as { type: string }).type) },
              { title: t("jobStatus"), cell: (job) => <span className={`tag ${JOB_STYLES[job.status] ?? ""}`}>{valueText("job", job.status)}</span> },
            ]}
          />
        </div>
      )}
      {isImporting ? <Import close={() => setImporting(false)} /> : null}
    </Page>
  );
}

type Imported = Schemas["ImportedBody"];

/** A file of jobs: first what would change, then the change. */
function Import({ close }: { close: () => void }) {
  const t = useT();
  const client = useQueryClient();
  const [text, setText] = useState("");
  const [plan, setPlan] = useState<Imported | null>(null);
  const [fault, setFault] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const send = async (isDry: boolean) => {
    setBusy(true);
    setFault(null);
    try {
      const found = await call(api.POST("/api/v1/jobs/import", { params: { query: { dryRun: isDry } }, body: JSON.parse(text) as never }));
      if (isDry) setPlan(found);
      else {
        await client.invalidateQueries({ queryKey: ["jobs"] });
        close();
      }
    } catch (error) {
      setFault(error instanceof SyntaxError ? new Error(t("opsNotJson")) : error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal open title={t("jobImport")} onCancel={close} okText={t(plan ? "jobImportNow" : "jobImportPlan")} okButtonProps={{ loading: isBusy, disabled: !text.trim() }} onOk={() => void send(plan === null)}>
      <div className="stack tight">
        <label className="stack tight">
          {t("jobImportText")}
          <Input.TextArea
            autoSize={{ minRows: 6, maxRows: 14 }}
            value={text}
            spellCheck={false}
            onChange={({ target }) => {
              setText(target.value);
              setPlan(null);
            }}
          />
        </label>
        <Fault error={fault} />
        {plan ? (
          <div role="status">
            <p>{t("jobImportSummary", { created: number(plan.created), updated: number(plan.updated), unchanged: number(plan.unchanged) })}</p>
            <ul>
              {plan.jobs.map((job) => (
                <li key={job.name}>
                  {job.name}: {valueText("jobChange", job.action)}
                </li>
              ))}
            </ul>
          </div>
        ) : null}
      </div>
    </Modal>
  );
}
