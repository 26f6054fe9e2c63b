import { CompassOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useNavigate } from "react-router";
import { useT } from "@/i18n";
import { Empty } from "./Empty";

/** `isPart`: inside a page that has a title. */
export default function NotFound({ isPart = false }: { isPart?: boolean }) {
  const t = useT();
  const navigate = useNavigate();
  return (
    <Empty icon={<CompassOutlined />} isPage={!isPart} title={t("notFound")} text={t("notFoundText")}>
      <Button onClick={() => void navigate("/")}>{t("navStudio")}</Button>
    </Empty>
  );
}
