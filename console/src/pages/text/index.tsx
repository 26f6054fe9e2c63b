import { lazy, Suspense } from "react";
import { Route, Routes } from "react-router";
import { Waiting } from "@/ui/Waiting";
import Write from "./Write";
import "../studio/studio.css";
import "./text.css";

const TextPage = lazy(() => import("./TextPage"));

export default function Text() {
  return (
    <Suspense fallback={<Waiting />}>
      <Routes>
        <Route index element={<Write />} />
        <Route path=":generationId" element={<TextPage />} />
      </Routes>
    </Suspense>
  );
}
