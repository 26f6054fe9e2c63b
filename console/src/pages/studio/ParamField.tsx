import { Input, InputNumber, Select, Slider, Switch } from "antd";
import { useId, type ReactNode } from "react";
import { useLabel } from "@/api/dictionaries";
import { useT, valueText } from "@/i18n";
import type { Schema } from "./tools";

const RATIOS = ["1:1", "3:4", "4:3", "4:5", "9:16", "16:9"];
const COLOR = /^#[0-9a-f]{6}$/i;
const isColor = (schema: Schema): boolean => schema.pattern?.includes("0-9a-fA-F") ?? false;

/** One option of a tool, from its JSON Schema. Undefined means "the tool decides". */
export function ParamField({ name, schema, value, onChange }: { name: string; schema: Schema; value: unknown; onChange: (value: unknown) => void }) {
  const t = useT();
  const label = useLabel();
  const id = useId();
  const title = valueText("param", name);
  const text = (one: string) => {
    const found = label("presets", `${name}.${one}`);
    return found === `${name}.${one}` ? one : found;
  };
  const shown = value ?? schema.default;
  const field = (control: ReactNode) => (
    <div className="field">
      <label htmlFor={id}>{title}</label>
      {control}
    </div>
  );

  const choices = schema.enum ?? schema.anyOf?.flatMap((one) => one.enum ?? (one.const === undefined ? [] : [one.const]));
  if (schema.anyOf?.some(isColor) || isColor(schema)) {
    const color = typeof shown === "string" && COLOR.test(shown) ? shown : null;
    const options = [...(choices?.map((one) => ({ value: one, label: text(one) })) ?? [{ value: "", label: t("paramAuto") }]), { value: "#", label: t("paramOwnColor") }];
    return field(
      <div className="row" style={{ flexWrap: "nowrap" }}>
        <Select id={id} style={{ flex: 1 }} value={color ? "#" : String(shown ?? "")} options={options} onChange={(one) => onChange(one === "#" ? "#ffffff" : one === "" ? undefined : one)} />
        {color ? <input type="color" className="swatch" aria-label={`${title}: ${t("paramOwnColor")}`} value={color} onChange={(event) => onChange(event.target.value)} /> : null}
      </div>,
    );
  }
  if (name === "aspect") {
    const options = [...(choices ?? []).map((one) => ({ value: one, label: text(one) })), ...(schema.default === undefined ? [{ value: "", label: t("paramAuto") }] : []), ...RATIOS.map((one) => ({ value: one, label: one }))];
    return field(<Select id={id} value={String(shown ?? "")} options={options} onChange={(one) => onChange(one || undefined)} />);
  }
  if (choices) {
    const options = [...(schema.default === undefined ? [{ value: "", label: t("paramAuto") }] : []), ...choices.map((one) => ({ value: one, label: text(one) }))];
    return field(<Select id={id} value={String(shown ?? "")} options={options} onChange={(one) => onChange(one || undefined)} />);
  }
  if (schema.type === "boolean")
    return (
      <div className="field inline">
        <label htmlFor={id}>{title}</label>
        <Switch id={id} checked={Boolean(shown)} onChange={onChange} />
      </div>
    );
  if (schema.type === "integer" || schema.type === "number") {
    const isWhole = schema.type === "integer";
    const { minimum, maximum } = schema;
    const isRange = minimum !== undefined && maximum !== undefined && maximum - minimum <= 100 && schema.default !== undefined;
    const number = (
      <InputNumber
        id={id}
        style={{ width: isRange ? 92 : "100%" }}
        min={minimum}
        max={maximum === undefined ? undefined : Math.min(maximum, Number.MAX_SAFE_INTEGER)}
        step={isWhole ? 1 : 0.05}
        precision={isWhole ? 0 : 2}
        placeholder={t("paramAuto")}
        value={(shown as number | undefined) ?? null}
        onChange={(one) => onChange(one ?? undefined)}
      />
    );
    if (!isRange) return field(number);
    return field(
      <div className="row" style={{ flexWrap: "nowrap" }}>
        <div style={{ flex: 1 }}>
          <Slider min={minimum} max={maximum} step={isWhole ? 1 : 0.05} value={shown as number} onChange={onChange} ariaLabelForHandle={title} />
        </div>
        {number}
      </div>,
    );
  }
  if (name === "prompt")
    return <div className="wide">{field(<Input.TextArea id={id} autoSize={{ minRows: 2, maxRows: 6 }} maxLength={schema.maxLength} showCount placeholder={t("promptHint")} value={String(value ?? "")} onChange={(event) => onChange(event.target.value || undefined)} />)}</div>;
  return field(<Input id={id} maxLength={schema.maxLength} value={String(value ?? "")} onChange={(event) => onChange(event.target.value || undefined)} />);
}
