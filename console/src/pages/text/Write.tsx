import { Button, Form, Input, Radio, Segmented, Select } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, call, once } from "@/api/client";
import { useAllowed } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { currentLanguage, dateTime, points, useLanguage, useT, valueText } from "@/i18n";
import { DataTable } from "@/ui/DataTable";
import { Fault } from "@/ui/Fault";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { useSubmit } from "@/ui/forms";
import { usePaged } from "@/ui/lists";
import { Drop } from "../studio/Drop";
import type { Picture } from "../studio/picture";
import { DeveloperSwitch, useDeveloperView } from "./developer";
import { partsOf, titleOf, useServices, type Service } from "./services";
import { TEXT_STYLES } from "./styles";

type Generation = Schemas["GenerationBody"];
type Properties = Record<string, { enum?: string[]; default?: string }>;

interface Values {
  service: string;
  text: string;
  params: Record<string, string>;
  paid: "auto" | "paid" | "free";
}

export default function Write() {
  const t = useT();
  const services = useServices();
  const recent = usePaged<Generation>(["generations"], "/generations", { limit: 10 });
  const mayWrite = useAllowed("task.submit");
  useLanguage();
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
              { title: t("txtText"), cell: (one) => <Link to={`/text/${one.generationId}`} translate="no">{[...(partsOf(one.result)[0]?.[1] ?? (one.text || t("txtNoText")))].slice(0, 60).join("")}</Link> },
              { title: t("opsKind"), cell: (one) => titleOf(services.data, one.service) },
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

/** The kinds that a seller chooses from. Copy from a picture is no kind of its own: the picture makes it one. */
const kindsOf = (services: Service[]): Service[] => services.filter((one) => one.service !== "listing" || !services.some((other) => other.service === "copywriting"));

function Writer({ services }: { services: Service[] }) {
  const t = useT();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [key, setKey] = useState(() => crypto.randomUUID());
  const [pictures, setPictures] = useState<Picture[]>([]);
  const [isMissing, setMissing] = useState(false);
  const [isDeveloper] = useDeveloperView();
  const [form] = Form.useForm<Values>();
  const kinds = kindsOf(services);
  const chosen = Form.useWatch("service", form) ?? kinds[0]!.service;
  const kind = kinds.find((one) => one.service === chosen) ?? kinds[0]!;
  const listing = kind.service === "copywriting" ? services.find((one) => one.service === "listing") : undefined;
  const picture = pictures[0];
  const service = listing && picture ? listing : kind;
  const properties = Object.entries((service.params as { properties?: Properties }).properties ?? {}).filter(([, schema]) => schema.enum);
  const wanted = service.input as { properties: Record<string, unknown>; required: string[] };
  const takesPicture = listing !== undefined || "inputId" in wanted.properties;
  const needsPicture = wanted.required.includes("inputId");
  const takesText = "text" in wanted.properties;
  const { submit, fault, isSending } = useSubmit(
    form,
    async (values) => {
      const input = { ...(takesText && values.text?.trim() ? { text: values.text.trim() } : {}), ...(picture && takesPicture ? { inputId: await picture.upload } : {}) };
      const body = { service: service.service, input, params: values.params ?? {}, ...(!isDeveloper || !values.paid || values.paid === "auto" ? {} : { paid: values.paid === "paid" }) };
      const made = (await call(api.POST("/api/v1/generations", { body, ...once(key) } as never))) as { generationId: string };
      setKey(crypto.randomUUID());
      void client.invalidateQueries({ queryKey: ["generations"] });
      void navigate(`/text/${made.generationId}`);
    },
    { names: { "input.text": "text", input: "text" } },
  );
  const send = (values: Values) => {
    setMissing(needsPicture && !picture);
    if (!needsPicture || picture) void submit(values);
  };
  const defaults = Object.fromEntries(properties.map(([name, schema]) => [name, name === "language" ? (schema.enum!.find((one) => one.startsWith(currentLanguage() === "zh" ? "Chinese" : "English")) ?? schema.default) : schema.default]));
  const reader = picture && listing ? services.find((one) => one.service === "image_tags") : undefined;
  return (
    <Form<Values> key={kind.service} form={form} layout="vertical" className="card" initialValues={{ service: kind.service, params: defaults, paid: "auto" }} onFinish={send}>
      {kinds.length > 1 ? (
        <Form.Item name="service" label={t("txtKind")}>
          <Radio.Group options={kinds.map((one) => ({ value: one.service, label: one.title[currentLanguage()] ?? one.service }))} />
        </Form.Item>
      ) : null}
      <div className={takesPicture && takesText ? "txt-columns" : undefined}>
        {takesPicture ? (
          <div className="txt-field">
            <span className="txt-label">{t(needsPicture && !listing ? "txtPicture" : "txtPictureOptional")}</span>
            <Drop label={t("txtPicture")} pictures={pictures} most={1} onChange={setPictures} hasSamples takesPaste />
            {isMissing && !picture ? (
              <span role="alert" className="field-fault">
                {t("pictureMissing")}
              </span>
            ) : null}
          </div>
        ) : null}
        {takesText ? (
          <Form.Item name="text" label={t("txtWords")} extra={t(picture ? "txtWordsPicture" : "txtWordsHint")} rules={[{ required: wanted.required.includes("text"), whitespace: true, message: t("required") }]}>
            <Input.TextArea autoSize={{ minRows: 6, maxRows: 12 }} maxLength={4000} placeholder={t("txtExample")} />
          </Form.Item>
        ) : null}
      </div>
      <div className="txt-options">
        {properties.map(([name, schema]) => (
          <Form.Item key={name} name={["params", name]} label={valueText("textParam", name)}>
            <Select options={schema.enum!.map((value) => ({ value, label: valueText("textValue", value) }))} />
          </Form.Item>
        ))}
        {isDeveloper ? (
          <Form.Item name="paid" label={t("txtQueue")} extra={t("txtQueueHint")}>
            <Segmented options={(["auto", "paid", "free"] as const).map((value) => ({ value, label: t(`txtPaid_${value}`) }))} />
          </Form.Item>
        ) : null}
      </div>
      <Fault error={fault} />
      <div className="row between">
        <div className="row">
          <Button type="primary" htmlType="submit" size="large" loading={isSending}>
            {t("txtWrite")}
          </Button>
          <span className="soft">
            {t("txtPrice", { input: service.pricePoints.input, output: service.pricePoints.output })}
            {reader ? ` · ${t("txtPricePicture", { input: reader.pricePoints.input, output: reader.pricePoints.output })}` : ""}
          </span>
        </div>
        <DeveloperSwitch />
      </div>
    </Form>
  );
}
