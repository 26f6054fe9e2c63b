import { Button, Form, Input, InputNumber, Modal, Segmented, Select, Switch } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { api, call } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { dateTime, number, useLanguage, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { useSubmit } from "@/ui/forms";
import { useReason } from "@/ui/useReason";
import { settingText } from "./settingWords";

type Setting = Schemas["SettingBody"];
type Cache = Schemas["NamedCacheBody"];
type Label = Schemas["LabelBody"];

const PARTS = ["settings", "cache", "dictionaries"] as const;

export default function Settings() {
  const t = useT();
  const [params, setParams] = useSearchParams();
  const part = (PARTS.find((one) => one === params.get("part")) ?? "settings") as (typeof PARTS)[number];
  return (
    <Page title={t("opsSettings")} text={t("opsSettingsHint")} actions={<Segmented<string> aria-label={t("opsSettings")} value={part} onChange={(value) => setParams({ part: value })} options={PARTS.map((value) => ({ value, label: t(`opsPart_${value}`) }))} />}>
      {part === "settings" ? <SettingTable /> : part === "cache" ? <Caches /> : <Dictionaries />}
    </Page>
  );
}

const shown = (value: unknown): string => (typeof value === "string" ? value : typeof value === "number" ? number(value) : JSON.stringify(value));

/** A value as it is stored. A list is cut: the dialog shows it whole. */
function Value({ value }: { value: unknown }) {
  const text = shown(value);
  return (
    <span className="ops-clip ops-value" translate="no" title={text}>
      {text}
    </span>
  );
}

function SettingTable() {
  const t = useT();
  const language = useLanguage();
  const ask = useReason();
  const client = useQueryClient();
  const mayWrite = useAllowed("ops.write");
  const [text, setText] = useState("");
  const [edited, setEdited] = useState<Setting | null>(null);
  const found = useQuery({
    queryKey: ["ops", "settings"],
    queryFn: async () => {
      const items: Setting[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await call(api.GET("/api/v1/ops/settings", { params: { query: { limit: 100, cursor } } }));
        items.push(...page.items);
        if (!page.nextCursor) return items;
        cursor = page.nextCursor;
      }
    },
  });
  const refresh = () => client.invalidateQueries({ queryKey: ["ops", "settings"] });
  const restore = (setting: Setting) =>
    ask({
      title: t("opsRestoreTitle", { key: setting.key }),
      text: t("opsRestoreText", { value: shown(setting.value), standard: shown(setting.default) }),
      action: t("opsRestore"),
      isReasonNeeded: false,
      run: async () => {
        await call(api.DELETE("/api/v1/ops/settings/{key}", { params: { path: { key: setting.key } } }));
        await refresh();
      },
    });
  const wanted = text.trim().toLowerCase();
  const items = (found.data ?? []).filter((one) => `${one.key} ${settingText(one, language)} ${one.description}`.toLowerCase().includes(wanted));
  return (
    <div className="stack">
      <Input allowClear aria-label={t("opsFindSetting")} placeholder={t("opsFindSetting")} value={text} onChange={({ target }) => setText(target.value)} style={{ maxWidth: 360 }} />
      <DataTable<Setting>
        label={t("opsSettings")}
        source={{ items, error: found.error, isPending: found.isPending, refetch: () => void found.refetch() }}
        rowKey={(one) => one.key}
        empty={t("opsNothing")}
        columns={[
          {
            title: t("opsSetting"),
            cell: (one) => (
              <div className="ops-setting">
                <code>{one.key}</code>
                <br />
                <span className="soft">{settingText(one, language)}</span>
                {one.fault ? <div className="ops-fault" translate="no">{one.fault}</div> : null}
              </div>
            ),
          },
          { title: t("opsValue"), isNumber: true, cell: (one) => (one.updatedAt ? <strong><Value value={one.value} /></strong> : <Value value={one.value} />) },
          { title: t("opsDefault"), isNumber: true, cell: (one) => <span className="soft"><Value value={one.default} /></span> },
          { title: t("opsChanged"), cell: (one) => (one.updatedAt ? dateTime(one.updatedAt) : "–") },
          mayWrite && {
            title: t("opsActions"),
            isQuiet: true,
            cell: (one) => (
              <div className="row" style={{ flexWrap: "nowrap" }}>
                <Button size="small" aria-label={`${t("opsChange")} ${one.key}`} onClick={() => setEdited(one)}>
                  {t("opsChange")}
                </Button>
                {one.updatedAt ? (
                  <Button size="small" type="text" aria-label={`${t("opsRestore")} ${one.key}`} onClick={() => restore(one)}>
                    {t("opsRestore")}
                  </Button>
                ) : null}
              </div>
            ),
          },
        ]}
      />
      {edited ? <Editor setting={edited} close={() => setEdited(null)} refresh={refresh} /> : null}
    </div>
  );
}

interface Edited {
  value: string | number | boolean;
}

function Editor({ setting, close, refresh }: { setting: Setting; close: () => void; refresh: () => Promise<void> }) {
  const t = useT();
  const language = useLanguage();
  const [form] = Form.useForm<Edited>();
  const isText = setting.type === "array" || setting.type === "object";
  const { submit, fault, isSending } = useSubmit(form, async ({ value }) => {
    await call(api.PUT("/api/v1/ops/settings/{key}", { params: { path: { key: setting.key } }, body: { value: isText ? JSON.parse(String(value)) : value } }));
    await refresh();
    close();
  });
  const rules = isText
    ? [{ validator: (_: unknown, value: string) => (isJson(value) ? Promise.resolve() : Promise.reject(new Error(t("opsNotJson")))) }]
    : [{ required: setting.type !== "boolean", message: t("required") }];
  return (
    <Modal open title={t("opsChangeTitle", { key: setting.key })} onCancel={close} okText={t("save")} onOk={form.submit} okButtonProps={{ loading: isSending }} destroyOnHidden>
      <Form<Edited> form={form} layout="vertical" onFinish={(values) => void submit(values)} initialValues={{ value: isText ? JSON.stringify(setting.value, null, 1) : setting.value }}>
        <p className="soft" style={{ marginBottom: 12 }}>
          {settingText(setting, language)}{language === "zh" ? "。" : ". "}{t("opsDefault")}: {shown(setting.default)}
          {setting.minimum !== null && setting.maximum !== null ? ` · ${number(setting.minimum)} – ${number(setting.maximum)}` : ""}
        </p>
        <Form.Item name="value" label={t("opsValue")} rules={rules} valuePropName={setting.type === "boolean" ? "checked" : "value"}>
          {setting.type === "boolean" ? (
            <Switch />
          ) : setting.type === "integer" || setting.type === "number" ? (
            <InputNumber min={setting.minimum ?? undefined} max={setting.maximum ?? undefined} precision={setting.type === "integer" ? 0 : undefined} style={{ width: "100%" }} />
          ) : isText ? (
            <Input.TextArea autoSize={{ minRows: 3, maxRows: 14 }} spellCheck={false} style={{ fontFamily: "monospace" }} />
          ) : (
            <Input />
          )}
        </Form.Item>
        <Fault error={fault} />
      </Form>
    </Modal>
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

function Caches() {
  const t = useT();
  const ask = useReason();
  const client = useQueryClient();
  const mayWrite = useAllowed("ops.write");
  const [prefix, setPrefix] = useState("");
  const [answer, setAnswer] = useState<string | null>(null);
  const found = useQuery({ queryKey: ["ops", "cache"], queryFn: () => call(api.GET("/api/v1/ops/cache", { params: { query: { limit: 100 } } })) });
  const refresh = (name: string) =>
    ask({
      title: t("opsRefreshTitle", { name }),
      text: t("opsRefreshText"),
      action: t("opsRefresh"),
      isReasonNeeded: false,
      run: async () => {
        const { refreshed } = await call(api.POST("/api/v1/ops/cache/refresh", { body: { name } }));
        setAnswer(t("opsRefreshed", { count: number(refreshed) }));
        await client.invalidateQueries({ queryKey: ["ops", "cache"] });
      },
    });
  const remove = () =>
    ask({
      title: t("opsDeletePrefixTitle", { prefix }),
      text: t("opsDeletePrefixText"),
      action: t("delete"),
      isDanger: true,
      isReasonNeeded: false,
      run: async () => {
        const { deleted } = await call(api.DELETE("/api/v1/ops/cache", { params: { query: { prefix } } }));
        setAnswer(t("opsDeleted", { count: number(deleted) }));
        await client.invalidateQueries({ queryKey: ["ops", "cache"] });
      },
    });
  return (
    <div className="stack">
      <DataTable<Cache>
        label={t("opsPart_cache")}
        source={{ items: found.data?.items ?? [], error: found.error, isPending: found.isPending, refetch: () => void found.refetch() }}
        rowKey={(one) => one.name}
        empty={t("opsNothing")}
        columns={[
          { title: t("opsCache"), cell: (one) => <code>{one.name}</code> },
          { title: t("opsEntries"), isNumber: true, cell: (one) => number(one.entries) },
          { title: t("opsHitRate"), isNumber: true, cell: (one) => (one.hits + one.misses === 0 ? "–" : `${number(Math.round(one.hitRate * 1000) / 10)} %`) },
          { title: t("opsHits"), isNumber: true, cell: (one) => `${number(one.hits)} / ${number(one.misses)}` },
          { title: t("opsReadP95"), isNumber: true, cell: (one) => `${number(one.readP95Milliseconds)} ms` },
          mayWrite && {
            title: t("opsActions"),
            isQuiet: true,
            cell: (one) =>
              one.refreshable ? (
                <Button size="small" aria-label={`${t("opsRefresh")} ${one.name}`} onClick={() => refresh(one.name)}>
                  {t("opsRefresh")}
                </Button>
              ) : null,
          },
        ]}
      />
      {found.data?.complete === false ? <p className="soft">{t("opsCacheNotComplete")}</p> : null}
      <p role="status">{answer}</p>
      {mayWrite ? (
        <form
          className="ops-filter"
          onSubmit={(event) => {
            event.preventDefault();
            if (prefix.trim()) remove();
          }}
        >
          <label>
            {t("opsPrefix")}
            <Input value={prefix} maxLength={200} onChange={({ target }) => setPrefix(target.value)} />
          </label>
          <Button danger htmlType="submit" disabled={!prefix.trim()}>
            {t("opsDeletePrefix")}
          </Button>
        </form>
      ) : null}
    </div>
  );
}

function Dictionaries() {
  const t = useT();
  const [type, setType] = useState("tools");
  const found = useQuery({ queryKey: ["ops", "dictionaries"], staleTime: 600_000, queryFn: async () => (await call(api.GET("/api/v1/dictionaries"))).dictionaries });
  const items = [...(found.data?.[type] ?? [])].sort((a, b) => a.order - b.order);
  return (
    <div className="stack">
      <label className="row">
        <span className="soft">{t("opsDictionary")}</span>
        <Select aria-label={t("opsDictionary")} style={{ minWidth: 200 }} value={type} onChange={setType} options={Object.keys(found.data ?? { tools: [] }).map((value) => ({ value, label: valueText("dictionary", value) }))} />
      </label>
      <DataTable<Label>
        label={valueText("dictionary", type)}
        source={{ items, error: found.error, isPending: found.isPending, refetch: () => void found.refetch() }}
        rowKey={(one) => one.key}
        empty={t("opsNothing")}
        columns={[
          { title: t("opsKey"), cell: (one) => <code>{one.key}</code> },
          { title: "English", cell: (one) => <span lang="en">{one.en}</span> },
          { title: "中文", cell: (one) => <span lang="zh-CN">{one.zh}</span> },
        ]}
      />
    </div>
  );
}
