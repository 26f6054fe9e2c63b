import { Button, Form, Input, Segmented, Select, Upload } from "antd";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, call, once } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { currentLanguage, dateTime, points, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import { TEXT_STYLES } from "./styles";
import { takePicture, type Picture } from "../studio/picture";

type Generation = Schemas["GenerationBody"];
type Service = Schemas["ServiceBody"];
type Properties = Record<string, { enum?: string[]; default?: string }>;

interface Values {
  service: string;
  text: string;
  params: Record<string, string>;
  paid: "auto" | "paid" | "free";
}

export default function Write() {
  const t = useT();
  const services = useQuery({ queryKey: ["services"], staleTime: 600_000, queryFn: async () => (await call(api.GET("/api/v1/services", { params: { query: { limit: 50 } } }))).items });
  const recent = usePaged<Generation>(["generations"], "/generations", { limit: 10 });
  const mayWrite = useAllowed("task.submit");
  return (
    <Page title={t("navText")} text={t("txtHint")}>
      <div className="stack loose">
        {services.error ? <Fault error={services.error} retry={() => void services.refetch()} /> : null}
        {services.isPending ? <Waiting /> : null}
        {mayWrite && services.data?.length ? <Writer services={services.data} /> : null}
        <section className="stack" aria-labelledby="txt-recent">
          <h2 id="txt-recent">{t("txtRecent")}</h2>
          <DataTable<Generation>
            label={t("txtRecent")}
            source={recent}
            rowKey={(one) => one.generationId}
            empty={t("txtNone")}
            columns={[
              { title: t("txtText"), cell: (one) => <Link to={`/text/${one.generationId}`}>{[...(one.text || t("txtNoText"))].slice(0, 60).join("")}</Link> },
              { title: t("txtStatus"), cell: (one) => <span className={`tag ${TEXT_STYLES[one.status] ?? ""}`}>{valueText("text", one.status)}</span> },
              { title: t("txtCost"), isNumber: true, cell: (one) => points(one.chargedPoints) },
              { title: t("txtWhen"), cell: (one) => dateTime(one.createdAt) },
            ]}
          />
        </section>
      </div>
    </Page>
  );
}

function Writer({ services }: { services: Service[] }) {
  const t = useT();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [key, setKey] = useState(() => crypto.randomUUID());
  const [picture, setPicture] = useState<Picture | null>(null);
  const [pictureFault, setPictureFault] = useState<unknown>(null);
  const [form] = Form.useForm<Values>();
  const chosen = Form.useWatch("service", form) ?? services[0]!.service;
  const service = services.find((one) => one.service === chosen) ?? services[0]!;
  const properties = Object.entries((service.params as { properties?: Properties }).properties ?? {}).filter(([, schema]) => schema.enum);
  const wanted = service.input as { properties: Record<string, unknown>; required: string[] };
  const [takesPicture, takesText] = ["inputId", "text"].map((name) => name in wanted.properties);
  const { submit, fault, isSending } = useSubmit(
    form,
    async (values) => {
      const input = { ...(takesText && values.text?.trim() ? { text: values.text.trim() } : {}), ...(picture && takesPicture ? { inputId: await picture.upload } : {}) };
      const body = { service: service.service, input, params: values.params ?? {}, ...(values.paid === "auto" ? {} : { paid: values.paid === "paid" }) };
      const made = (await call(api.POST("/api/v1/generations", { body, ...once(key) } as never))) as { generationId: string };
      setKey(crypto.randomUUID());
      void client.invalidateQueries({ queryKey: ["generations"] });
      void navigate(`/text/${made.generationId}`);
    },
    { names: { "input.text": "text", input: "text" } },
  );
  const take = async (file: File) => {
    setPictureFault(null);
    try {
      setPicture(await takePicture(file, file.name));
    } catch (error) {
      setPictureFault(error);
    }
  };
  const defaults = Object.fromEntries(properties.map(([name, schema]) => [name, name === "language" ? (schema.enum!.find((one) => one.startsWith(currentLanguage() === "zh" ? "Chinese" : "English")) ?? schema.default) : schema.default]));
  return (
    <Form<Values> key={service.service} form={form} layout="vertical" className="card" initialValues={{ service: service.service, params: defaults, paid: "auto" }} onFinish={(values) => void submit(values)}>
      {services.length > 1 ? (
        <Form.Item name="service" label={t("txtKind")}>
          <Select options={services.map((one) => ({ value: one.service, label: one.title[currentLanguage()] ?? one.service }))} />
        </Form.Item>
      ) : null}
      {takesPicture ? (
        <Form.Item label={t("txtPicture")} required={wanted.required.includes("inputId")}>
          <div className="row">
            <Upload accept="image/png,image/jpeg,image/webp" showUploadList={false} beforeUpload={(file) => (void take(file), false)}>
              <Button>{t("txtChoosePicture")}</Button>
            </Upload>
            {picture ? <img className="txt-thumb" src={picture.url} alt={picture.name} /> : null}
          </div>
          <Fault error={pictureFault} />
        </Form.Item>
      ) : null}
      {takesText ? (
        <Form.Item name="text" label={t("txtWords")} extra={t("txtWordsHint")} rules={[{ required: wanted.required.includes("text"), whitespace: true, message: t("required") }]}>
          <Input.TextArea autoSize={{ minRows: 3, maxRows: 10 }} maxLength={4000} showCount placeholder={t("txtExample")} />
        </Form.Item>
      ) : null}
      <div className="txt-options">
        {properties.map(([name, schema]) => (
          <Form.Item key={name} name={["params", name]} label={valueText("textParam", name)}>
            <Select options={schema.enum!.map((value) => ({ value, label: valueText("textValue", value) }))} />
          </Form.Item>
        ))}
        <Form.Item name="paid" label={t("txtQueue")}>
          <Segmented options={(["auto", "paid", "free"] as const).map((value) => ({ value, label: t(`txtPaid_${value}`) }))} />
        </Form.Item>
      </div>
      <Fault error={fault} />
      <div className="row">
        <Button type="primary" htmlType="submit" size="large" loading={isSending}>
          {t("txtWrite")}
        </Button>
        <span className="soft">{t("txtPrice", { input: service.pricePoints.input, output: service.pricePoints.output })}</span>
      </div>
    </Form>
  );
}
