import { label } from "@/api/dictionaries";
import { number, useT } from "@/i18n";
import { shortId } from "./data";

/** What became of an act on several rows. */
export interface Outcome {
  done: number;
  refused: { id: string; code: string | null }[];
}

export const outcomeOf = (results: { id: string; errorCode: string | null }[]): Outcome => ({
  done: results.filter((one) => !one.errorCode).length,
  refused: results.filter((one) => one.errorCode).map((one) => ({ id: one.id, code: one.errorCode })),
});

/** Stands beside the buttons of the act, and names each row that was refused. */
export function OutcomeLine({ outcome }: { outcome: Outcome | null }) {
  const t = useT();
  return (
    <div role="status">
      {outcome ? (
        <>
          <p>{t("opsActed", { done: number(outcome.done), refused: number(outcome.refused.length) })}</p>
          <ul className="ops-refused">
            {outcome.refused
              .filter((one) => one.code)
              .map((one) => (
                <li key={one.id}>
                  <code>{shortId(one.id)}</code> {label("error_codes", one.code!) ?? one.code}
                </li>
              ))}
          </ul>
        </>
      ) : null}
    </div>
  );
}
