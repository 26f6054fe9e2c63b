import { lazy, Suspense } from "react";
import { Route, Routes } from "react-router";
import NotFound from "@/ui/NotFound";
import { Waiting } from "@/ui/Waiting";
import List from "./List";
import "./jobs.css";

const JobPage = lazy(() => import("./JobPage"));
const RunPage = lazy(() => import("./RunPage"));
const NewJob = lazy(() => import("./NewJob"));

export default function Jobs() {
  return (
    <Suspense fallback={<Waiting />}>
      <Routes>
        <Route index element={<List />} />
        <Route path="new" element={<NewJob />} />
        <Route path="runs/:runId" element={<RunPage />} />
        <Route path=":jobId" element={<JobPage />} />
        <Route path="*" element={<NotFound />} />
      </Routes>
    </Suspense>
  );
}
