import { lazy, Suspense, useEffect, useRef } from "react";
import { NavLink, Route, Routes, useLocation } from "react-router";
import { useAllowed } from "@/api/queries";
import { useT } from "@/i18n";
import type { Word } from "@/i18n/words";
import NotFound from "@/ui/NotFound";
import { Waiting } from "@/ui/Waiting";
import { useHealth } from "./data";
import Overview from "./Overview";
import "./ops.css";

const Charts = lazy(() => import("./Charts"));
const Tasks = lazy(() => import("./Tasks"));
const TaskPage = lazy(() => import("./TaskPage"));
const Runs = lazy(() => import("./Runs"));
const Texts = lazy(() => import("./Texts"));
const Lanes = lazy(() => import("./Lanes"));
const Workers = lazy(() => import("./Workers"));
const Shares = lazy(() => import("./Shares"));
const DeadLetters = lazy(() => import("./DeadLetters"));
const Checks = lazy(() => import("./Checks"));
const Audit = lazy(() => import("./Audit"));
const Settings = lazy(() => import("./Settings"));
const Margins = lazy(() => import("./Margins"));
const Tenants = lazy(() => import("./Tenants"));
const TenantPage = lazy(() => import("./TenantPage"));

const SECTIONS: [path: string, title: Word, permission?: string][] = [
  ["", "opsOverview"],
  ["charts", "opsCharts"],
  ["tasks", "opsTasks"],
  ["runs", "opsRuns"],
  ["texts", "opsTexts"],
  ["lanes", "opsLanes"],
  ["workers", "opsWorkers"],
  ["shares", "opsShares"],
  ["dead-letters", "opsDeadLetters"],
  ["checks", "opsChecks"],
  ["margins", "opsMargins"],
  ["tenants", "opsTenants", "tenant.manage"],
  ["audit", "opsAudit"],
  ["settings", "opsSettings"],
];

export default function Operations() {
  const t = useT();
  const health = useHealth();
  const mayManageTenants = useAllowed("tenant.manage");
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  // On a phone the sections are wider than the screen: the current one is scrolled into it.
  useEffect(() => {
    const current = nav.current?.querySelector<HTMLElement>("[aria-current=page]");
    if (current) nav.current!.scrollLeft = current.offsetLeft - nav.current!.offsetLeft - (nav.current!.clientWidth - current.offsetWidth) / 2;
  }, [pathname, mayManageTenants]);
  return (
    <>
      {health.data?.state === "DEGRADED" ? (
        <div className="ops-degraded" role="status">
          {t("opsDegraded")} <NavLink to="/ops">{t("opsDegradedWhy")}</NavLink>
        </div>
      ) : null}
      <nav ref={nav} className="ops-nav" aria-label={t("navOps")}>
        {SECTIONS.filter(([, , permission]) => !permission || mayManageTenants).map(([path, title]) => (
          <NavLink key={path} to={path ? `/ops/${path}` : "/ops"} end={path === ""}>
            {t(title)}
          </NavLink>
        ))}
      </nav>
      <Suspense fallback={<Waiting />}>
        <Routes>
          <Route index element={<Overview />} />
          <Route path="charts" element={<Charts />} />
          <Route path="tasks" element={<Tasks />} />
          <Route path="tasks/:taskId" element={<TaskPage />} />
          <Route path="runs" element={<Runs />} />
          <Route path="texts" element={<Texts />} />
          <Route path="lanes" element={<Lanes />} />
          <Route path="workers" element={<Workers />} />
          <Route path="shares" element={<Shares />} />
          <Route path="dead-letters" element={<DeadLetters />} />
          <Route path="checks" element={<Checks />} />
          <Route path="margins" element={<Margins />} />
          <Route path="tenants" element={<Tenants />} />
          <Route path="tenants/:tenantId" element={<TenantPage />} />
          <Route path="audit" element={<Audit />} />
          <Route path="settings" element={<Settings />} />
          <Route path="*" element={<NotFound />} />
        </Routes>
      </Suspense>
    </>
  );
}
