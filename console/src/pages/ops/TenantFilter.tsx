import { Select } from "antd";
import { useT } from "@/i18n";
import { shortId, useTenants } from "./data";

/** Chooses a tenant by name. An operator who may not read the names sees none. */
export function TenantFilter({ value, change }: { value: string | null; change: (tenantId: string | undefined) => void }) {
  const t = useT();
  const { data } = useTenants();
  if (!data) return null;
  const known = data.some((one) => one.tenantId === value) || !value ? data : [...data, { tenantId: value, name: shortId(value) }];
  return (
    <label>
      {t("opsTenant")}
      <Select allowClear showSearch={{ optionFilterProp: "label" }} style={{ minWidth: 160 }} value={value} onChange={change} options={known.map((one) => ({ value: one.tenantId, label: one.name }))} />
    </label>
  );
}
