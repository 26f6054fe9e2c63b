import { lazy, Suspense, type ComponentType } from "react";
import { createHashRouter, Navigate, useLocation } from "react-router";
import { session, useSessionUser } from "@/api/session";
import { PageError } from "@/ui/PageError";
import { Waiting } from "@/ui/Waiting";
import { ENTRIES } from "./navigation";
import { Allowed } from "./Allowed";

/** Each page is a file of its own, loaded when it is first opened. */
function page(load: () => Promise<{ default: ComponentType }>) {
  const Page = lazy(load);
  return (
    <Suspense fallback={<Waiting />}>
      <Page />
    </Suspense>
  );
}

const Shell = lazy(() => import("./Shell"));

/** Without a session the address is kept and opened after the sign-in. */
function SignedIn() {
  const user = useSessionUser();
  const { pathname, search } = useLocation();
  if (!user) {
    const here = `${pathname}${search}`;
    return <Navigate to={here === "/" || session.ending === "signed-out" ? "/login" : `/login?next=${encodeURIComponent(here)}`} replace />;
  }
  return (
    <Suspense fallback={<Waiting isWhole />}>
      <Shell key={user} />
    </Suspense>
  );
}

const guarded = (path: string, load: () => Promise<{ default: ComponentType }>) => <Allowed permissions={ENTRIES.find((entry) => entry.path === path)?.permissions}>{page(load)}</Allowed>;

export const router = createHashRouter([
  {
    errorElement: <PageError />,
    children: [
      { path: "/login", element: page(() => import("@/pages/auth/Login")) },
      { path: "/register", element: page(() => import("@/pages/auth/Register")) },
      { path: "/forgot", element: page(() => import("@/pages/auth/Forgot")) },
      { path: "/reset", element: page(() => import("@/pages/auth/Reset")) },
      { path: "/invitation", element: page(() => import("@/pages/auth/Invitation")) },
      {
        path: "/",
        element: <SignedIn />,
        children: [
          {
            errorElement: <PageError />,
            children: [
              { index: true, element: page(() => import("@/pages/studio/Gallery")) },
              { path: "studio/:tool", element: guarded("/", () => import("@/pages/studio/ToolPage")) },
              { path: "tasks/:taskId", element: guarded("/library", () => import("@/pages/task")) },
              { path: "library", element: guarded("/library", () => import("@/pages/library")) },
              { path: "wallet/*", element: guarded("/wallet", () => import("@/pages/wallet")) },
              { path: "team/*", element: guarded("/team", () => import("@/pages/team")) },
              { path: "text/*", element: guarded("/text", () => import("@/pages/text")) },
              { path: "jobs/*", element: guarded("/jobs", () => import("@/pages/jobs")) },
              { path: "developers/*", element: page(() => import("@/pages/developers")) },
              { path: "ops/*", element: guarded("/ops", () => import("@/pages/ops")) },
              { path: "account/*", element: page(() => import("@/pages/account")) },
              { path: "*", element: page(() => import("@/ui/NotFound")) },
            ],
          },
        ],
      },
    ],
  },
]);
