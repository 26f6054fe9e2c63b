import { useT } from "@/i18n";
import { Copy } from "./Copy";
import { sampleOf, type SampleName } from "./samples";

const SAMPLES = [
  ["curl", "devCurl"],
  ["python", "devPython"],
  ["verify", "devVerify"],
] as const satisfies [SampleName, string][];

export default function Samples() {
  const t = useT();
  return (
    <div className="stack">
      <p className="soft">{t("devSamplesHint")}</p>
      {SAMPLES.map(([name, title]) => (
        <section key={name} className="card stack tight" aria-labelledby={`dev-${name}`}>
          <div className="row between">
            <h2 id={`dev-${name}`}>{t(title)}</h2>
            <Copy text={sampleOf(name, location.origin)} name={t("devCopyAs", { name: t(title) })} label={t("copy")} />
          </div>
          <pre className="dev-code" role="region" tabIndex={0} aria-label={t(title)}>
            {sampleOf(name, location.origin)}
          </pre>
        </section>
      ))}
    </div>
  );
}
