import { useT } from "@/i18n";
import { Page } from "@/ui/Page";

export default function Index() {
  const t = useT();
  return <Page title={t("navTeam")}>{null}</Page>;
}
