import { CompassOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useNavigate } from "react-router";
import { useT } from "@/i18n";
import { Empty } from "./Empty";

export default function NotFound() {
  const t = useT();
  const navigate = useNavigate();
  return (
    <Empty icon={<CompassOutlined />} title={t("notFound")} text={t("notFoundText")}>
      <Button onClick={() => void navigate("/")}>{t("navStudio")}</Button>
    </Empty>
  );
}
