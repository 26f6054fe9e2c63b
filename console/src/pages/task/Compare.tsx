import { useState } from "react";
import type { Result } from "@/api/types";
import { useT } from "@/i18n";

/** The result; with an original, a slider that lays it over the result. */
export function Compare({ result, original, alt }: { result: Result; original: string | null; alt: string }) {
  const t = useT();
  const [share, setShare] = useState(0);
  return (
    <figure className="compare">
      <div className="compare-area checker" style={{ aspectRatio: `${result.width} / ${result.height}`, maxWidth: `min(100%, ${result.width * 2}px, calc(66vh * ${result.width / result.height}))` }}>
        <img src={result.url} alt={alt} />
        {original && share > 0 ? (
          <>
            <img src={original} alt={t("before")} className="compare-before" style={{ clipPath: `inset(0 ${100 - share}% 0 0)` }} />
            <span className="compare-line" style={{ left: `${share}%` }} aria-hidden="true" />
          </>
        ) : null}
      </div>
      {original ? (
        <label className="compare-slider">
          <span>{t("before")}</span>
          <input type="range" min={0} max={100} value={share} onChange={(event) => setShare(Number(event.target.value))} aria-label={t("taskCompareSlider")} />
          <span>{t("after")}</span>
        </label>
      ) : null}
    </figure>
  );
}
