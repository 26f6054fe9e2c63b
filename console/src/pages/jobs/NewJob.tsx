import { Alert, Button, Form, Input, InputNumber, Select } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, call } from "@/api/client";
import { errorText } from "@/api/dictionaries";
import { currentLanguage, dateTime, useT, valueText } from "@/i18n";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { useSubmit } from "@/ui/forms";
import { Secret } from "../developers/Secret";
import { scheduleOf, type Rhythm, type ScheduleValues } from "./data";

interface Values extends ScheduleValues {
  name: string;
  kind: "HTTP" | "JSON";
  url: string;
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD";
  body: string;
  task: string;
  maxAttempts: number;
  priority: (typeof PRIORITIES)[number];
  overlapPolicy: (typeof OVERLAPS)[number];
  misfirePolicy: (typeof MISFIRES)[number];
}

const PRIORITIES = ["CRITICAL", "HIGH", "NORMAL", "LOW"] as const;
const OVERLAPS = ["ALLOW_ALL", "SKIP", "BUFFER_ONE", "BUFFER_ALL", "CANCEL_OTHER"] as const;
const MISFIRES = ["FIRE_ONCE", "FIRE_ALL", "SKIP"] as const;
const RHYTHMS: Rhythm[] = ["minutes", "hourly", "daily", "weekly", "cron", "once"];
const START: Values = { name: "", kind: "HTTP", url: "", method: "POST", body: "", task: "", maxAttempts: 3, priority: "NORMAL", overlapPolicy: "ALLOW_ALL", misfirePolicy: "FIRE_ONCE", rhythm: "daily", every: 15, minute: 0, time: "09:00", weekday: 1, expr: "0 9 * * *", at: "", timezone: Intl.DateTimeFormat().resolvedOptions().timeZone };

export default function NewJob() {
  const t = useT();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [form] = Form.useForm<Values>();
  const [made, setMade] = useState<{ jobId: string; secret: string } | null>(null);
  const values = { ...START, ...(Form.useWatch([], form) as Partial<Values> | undefined) };
  const { submit, fault, isSending } = useSubmit(
    form,
    async (given) => {
      const all = { ...START, ...given };
      const task = all.kind === "HTTP" ? { type: "HTTP" as const, url: all.url.trim(), method: all.method, ...(all.body.trim() ? { body: all.body } : {}) } : (JSON.parse(all.task) as never);
      const job = await call(api.POST("/api/v1/jobs", { body: { name: all.name.trim(), schedule: { jitterSeconds: 0, ...scheduleOf(all) }, task, retryPolicy: { maxAttempts: all.maxAttempts, baseDelayMs: 1000 }, priority: all.priority, overlapPolicy: all.overlapPolicy, misfirePolicy: all.misfirePolicy } as never }));
      await client.invalidateQueries({ queryKey: ["jobs"] });
      const { jobId, signingSecret } = job as { jobId: string; signingSecret: string | null };
      if (signingSecret) setMade({ jobId, secret: signingSecret });
      else void navigate(`/jobs/${jobId}`);
    },
    { names: { "schedule.expr": "expr", "schedule.at": "at", "schedule.timezone": "timezone", "task.url": "url", "task.HTTP.url": "url" } },
  );
  const required = { required: true, message: t("required") };
  if (made)
    return (
      <Page title={t("jobMade")}>
        <div className="stack">
          <Secret title={t("jobSecret")} text={t("jobSecretText")} secret={made.secret} />
          <Link to={`/jobs/${made.jobId}`}>{t("jobOpen")}</Link>
        </div>
      </Page>
    );
  return (
    <Page title={t("jobNew")} text={<Link to="/jobs">{t("navJobs")}</Link>}>
      <Form<Values> form={form} layout="vertical" initialValues={START} onFinish={(given) => void submit(given)}>
        <div className="job-columns">
          <div className="card">
            <Form.Item name="name" label={t("jobName")} rules={[{ ...required, whitespace: true }]}>
              <Input maxLength={120} autoComplete="off" />
            </Form.Item>
            <Form.Item name="kind" label={t("jobDoes")}>
              <Select options={[{ value: "HTTP", label: t("jobTask_HTTP") }, { value: "JSON", label: t("jobTaskJson") }]} />
            </Form.Item>
            {values.kind === "HTTP" ? (
              <>
                <Form.Item name="url" label={t("devUrl")} rules={[required, { pattern: /^https?:\/\/\S+$/i, message: t("devUrlWrong") }]}>
                  <Input inputMode="url" placeholder="https://shop.example/nightly" maxLength={2000} />
                </Form.Item>
                <Form.Item name="method" label={t("jobMethod")}>
                  <Select options={["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"].map((value) => ({ value, label: value }))} />
                </Form.Item>
                <Form.Item name="body" label={t("jobBody")}>
                  <Input.TextArea autoSize={{ minRows: 2, maxRows: 8 }} spellCheck={false} />
                </Form.Item>
              </>
            ) : (
              <Form.Item name="task" label={t("jobTaskJson")} extra={t("jobTaskJsonHint")} rules={[required, { validator: (_, value: string) => (isJson(value) ? Promise.resolve() : Promise.reject(new Error(t("opsNotJson")))) }]}>
                <Input.TextArea autoSize={{ minRows: 4, maxRows: 12 }} spellCheck={false} placeholder='{"type": "TASK", "tool": "cutout", "inputs": {"product": "in_…"}}' />
              </Form.Item>
            )}
            <Form.Item name="maxAttempts" label={t("jobAttempts")}>
              <InputNumber min={1} max={20} precision={0} style={{ width: "100%" }} />
            </Form.Item>
            <Form.Item name="priority" label={t("jobPriority")}>
              <Select options={PRIORITIES.map((value) => ({ value, label: valueText("jobPriority", value) }))} />
            </Form.Item>
            <Form.Item name="overlapPolicy" label={t("jobOverlap")}>
              <Select options={OVERLAPS.map((value) => ({ value, label: valueText("overlap", value) }))} />
            </Form.Item>
            <Form.Item name="misfirePolicy" label={t("jobMisfire")}>
              <Select options={MISFIRES.map((value) => ({ value, label: valueText("misfire", value) }))} />
            </Form.Item>
          </div>
          <div className="card">
            <Form.Item name="rhythm" label={t("jobWhen")}>
              <Select options={RHYTHMS.map((value) => ({ value, label: t(`jobRhythm_${value}`) }))} />
            </Form.Item>
            {values.rhythm === "minutes" ? (
              <Form.Item name="every" label={t("jobEvery")}>
                <Select options={[1, 2, 5, 10, 15, 20, 30].map((value) => ({ value, label: String(value) }))} />
              </Form.Item>
            ) : null}
            {values.rhythm === "hourly" ? (
              <Form.Item name="minute" label={t("jobMinute")}>
                <InputNumber min={0} max={59} precision={0} style={{ width: "100%" }} />
              </Form.Item>
            ) : null}
            {values.rhythm === "weekly" ? (
              <Form.Item name="weekday" label={t("jobWeekday")}>
                <Select options={[1, 2, 3, 4, 5, 6, 0].map((value) => ({ value, label: t(`jobDay_${value as 0}`) }))} />
              </Form.Item>
            ) : null}
            {values.rhythm === "daily" || values.rhythm === "weekly" ? (
              <Form.Item name="time" label={t("jobTime")} rules={[required]}>
                <Input type="time" />
              </Form.Item>
            ) : null}
            {values.rhythm === "cron" ? (
              <Form.Item name="expr" label={t("jobCron")} extra={t("jobCronHint")} rules={[required]}>
                <Input maxLength={120} spellCheck={false} />
              </Form.Item>
            ) : null}
            {values.rhythm === "once" ? (
              <Form.Item name="at" label={t("jobAt")} rules={[required]}>
                <Input type="datetime-local" />
              </Form.Item>
            ) : null}
            <Form.Item name="timezone" label={t("jobZone")} rules={[required]}>
              <Select showSearch options={Intl.supportedValuesOf("timeZone").concat("UTC").map((value) => ({ value, label: value }))} />
            </Form.Item>
            <Preview values={values} />
          </div>
        </div>
        <div className="stack" style={{ marginTop: 16 }}>
          <Fault error={fault} />
          <div>
            <Button type="primary" htmlType="submit" size="large" loading={isSending}>
              {t("jobCreate")}
            </Button>
          </div>
        </div>
      </Form>
    </Page>
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The schedule in words and its next fires, as the server understands it. */
function Preview({ values }: { values: ScheduleValues }) {
  const t = useT();
  const schedule = useDeferredValue(JSON.stringify(scheduleOf(values)));
  const isComplete = values.rhythm !== "once" || Boolean(values.at);
  const found = useQuery({
    queryKey: ["jobs", "preview", schedule],
    enabled: isComplete,
    placeholderData: (before) => before,
    queryFn: () => call(api.POST("/api/v1/jobs/preview", { body: { schedule: JSON.parse(schedule) } as never })),
  });
  if (!isComplete) return null;
  if (found.error) return <Alert type="warning" showIcon role="alert" title={errorText(found.error)} />;
  if (!found.data) return null;
  const { descriptions, description, nextFires } = found.data as { description: string; descriptions?: Record<string, string>; nextFires: { at: string; local: string; offset: string }[] };
  return (
    <div className="job-preview" role="status" data-testid="preview">
      <strong>{descriptions?.[currentLanguage()] ?? description}</strong>
      <span className="soft">{t("jobNextFires")}</span>
      <ol>
        {nextFires.slice(0, 5).map((fire) => (
          <li key={fire.at} title={fire.local} className="digits">
            {dateTime(fire.at)}
          </li>
        ))}
      </ol>
    </div>
  );
}
