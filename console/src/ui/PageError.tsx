import { ReloadOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { useT } from "@/i18n";
import { Empty } from "./Empty";

/** After a release the old files may be gone, so loading again is the way out. */
export function PageError() {
  const t = useT();
  return (
    <Empty icon={<ReloadOutlined />} title={t("errorPage")} text={t("errorPageText")}>
      <Button type="primary" onClick={() => location.reload()}>
        {t("reload")}
      </Button>
    </Empty>
  );
}
