import { App as Messages, ConfigProvider } from "antd";
import en from "antd/locale/en_US";
import zh from "antd/locale/zh_CN";
import { QueryClientProvider } from "@tanstack/react-query";
import { useEffect } from "react";
import { RouterProvider } from "react-router/dom";
import { queries } from "@/api/queries";
import { useSessionUser } from "@/api/session";
import { useLanguage } from "@/i18n";
import { useKeptFocus } from "./focus";
import { router } from "./routes";
import { themeOf, useDark } from "./theme";

export function App() {
  const dark = useDark();
  const language = useLanguage();
  const user = useSessionUser();
  useKeptFocus();
  // Another user's data must not show, also when another tab signed in as somebody else.
  useEffect(() => () => queries.clear(), [user]);
  return (
    <ConfigProvider theme={themeOf(dark)} locale={language === "zh" ? zh : en} button={{ autoInsertSpace: false }} form={{ requiredMark: false, scrollToFirstError: true }}>
      <QueryClientProvider client={queries}>
        <Messages notification={{ placement: "bottomRight", maxCount: 3 }} message={{ maxCount: 2 }}>
          <RouterProvider router={router} />
        </Messages>
      </QueryClientProvider>
    </ConfigProvider>
  );
}
