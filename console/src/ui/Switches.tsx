import { MoonOutlined, SunOutlined, TranslationOutlined } from "@ant-design/icons";
import { Button } from "antd";
import { setAppearance, useDark } from "@/app/theme";
import { setLanguage, useLanguage, useT } from "@/i18n";

export function LanguageSwitch() {
  const t = useT();
  const language = useLanguage();
  return (
    <Button type="text" icon={<TranslationOutlined />} lang={language === "zh" ? "en" : "zh-CN"} onClick={() => setLanguage(language === "zh" ? "en" : "zh")}>
      {t("switchLanguage")}
    </Button>
  );
}

export function ThemeSwitch() {
  const t = useT();
  const dark = useDark();
  const next = t(dark ? "themeLight" : "themeDark");
  return <Button type="text" aria-label={`${t("theme")}: ${next}`} title={next} icon={dark ? <SunOutlined /> : <MoonOutlined />} onClick={() => setAppearance(dark ? "light" : "dark")} />;
}
