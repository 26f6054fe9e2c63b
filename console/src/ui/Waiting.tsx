import { Spin } from "antd";
import { useT } from "@/i18n";

export function Waiting({ isWhole = false }: { isWhole?: boolean }) {
  const t = useT();
  return (
    <div role="status" style={{ display: "grid", placeItems: "center", minHeight: isWhole ? "100dvh" : "40vh" }}>
      <Spin delay={150} />
      <span className="visually-hidden">{t("loading")}</span>
    </div>
  );
}
