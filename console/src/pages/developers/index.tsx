import { lazy, Suspense } from "react";
import { NavLink, Route, Routes } from "react-router";
import { useAllowed } from "@/api/queries";
import { useT } from "@/i18n";
import NotFound from "@/ui/NotFound";
import { Page } from "@/ui/Page";
import { Waiting } from "@/ui/Waiting";
import { Keys } from "./Keys";
import "./developers.css";

const Webhooks = lazy(() => import("./Webhooks"));
const Samples = lazy(() => import("./Samples"));

export default function Developers() {
  const t = useT();
  const mayManageWebhooks = useAllowed("webhook.manage");
  return (
    <Page
      title={t("navDevelopers")}
      text={t("devHint")}
      actions={
        <a href="/api/v1/docs" target="_blank" rel="noreferrer">
          {t("devDocs")}
        </a>
      }
    >
      <nav className="wal-nav" aria-label={t("navDevelopers")}>
        <NavLink to="/developers" end>
          {t("devKeys")}
        </NavLink>
        {mayManageWebhooks ? <NavLink to="/developers/webhooks">{t("devWebhooks")}</NavLink> : null}
        <NavLink to="/developers/samples">{t("devSamples")}</NavLink>
      </nav>
      <Suspense fallback={<Waiting />}>
        <Routes>
          <Route index element={<Keys />} />
          <Route path="webhooks" element={<Webhooks />} />
          <Route path="samples" element={<Samples />} />
          <Route path="*" element={<NotFound isPart />} />
        </Routes>
      </Suspense>
    </Page>
  );
}
