import { Button, Checkbox } from "antd";
import type { Key, ReactNode } from "react";
import { useT } from "@/i18n";
import { Fault } from "./Fault";
import { Waiting } from "./Waiting";
import "./data-table.css";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  isNumber?: boolean;
  /** The title is read out but not drawn, as for a column of buttons. */
  isQuiet?: boolean;
}

export interface Choice {
  chosen: ReadonlySet<string>;
  change: (next: ReadonlySet<string>) => void;
}

/** What usePaged gives, or parts of it. */
interface Source<T> {
  items: T[];
  error?: unknown;
  isPending?: boolean;
  refetch?: () => void;
  more?: () => void;
  isMoreLoading?: boolean;
}

interface Properties<T> {
  /** What the table lists, for screen readers. */
  label: string;
  columns: (Column<T> | false | null)[];
  source: Source<T>;
  rowKey: (row: T) => string;
  empty: ReactNode;
  choice?: Choice;
  rowName?: (row: T) => string;
}

/** A table that becomes a list of cards on a phone. */
export function DataTable<T>({ label, columns, source, rowKey, empty, choice, rowName }: Properties<T>) {
  const t = useT();
  if (source.error) return <Fault error={source.error} retry={source.refetch} />;
  if (source.isPending) return <Waiting />;
  if (source.items.length === 0) return <div className="card soft data-empty">{empty}</div>;
  const shown = columns.filter((one): one is Column<T> => Boolean(one));
  const keys = source.items.map(rowKey);
  const isAll = choice !== undefined && keys.every((key) => choice.chosen.has(key));
  const toggle = (key: string, isOn: boolean) => {
    const next = new Set(choice!.chosen);
    if (isOn) next.add(key);
    else next.delete(key);
    choice!.change(next);
  };
  return (
    <>
      {/* The region scrolls, so the keyboard must reach it. */}
      <div className="card flush data-scroll" role="region" aria-label={label} tabIndex={0}>
        <table className="data">
          <thead>
            <tr>
              {choice ? (
                <th scope="col" className="data-choice">
                  <Checkbox checked={isAll} indeterminate={!isAll && choice.chosen.size > 0} onChange={({ target }) => choice.change(new Set(target.checked ? keys : []))}>
                    <span className="visually-hidden">{t("chooseAll")}</span>
                  </Checkbox>
                </th>
              ) : null}
              {shown.map((column) => (
                <th key={column.title} scope="col" className={column.isNumber ? "data-number" : undefined}>
                  {column.isQuiet ? <span className="visually-hidden">{column.title}</span> : column.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {source.items.map((row, index) => (
              <tr key={keys[index] as Key}>
                {choice ? (
                  <td className="data-choice">
                    <Checkbox checked={choice.chosen.has(keys[index]!)} onChange={({ target }) => toggle(keys[index]!, target.checked)}>
                      <span className="visually-hidden">{t("chooseOne", { name: rowName?.(row) ?? keys[index]! })}</span>
                    </Checkbox>
                  </td>
                ) : null}
                {shown.map((column) => (
                  <td key={column.title} data-label={column.isQuiet ? undefined : column.title} className={column.isNumber ? "data-number digits" : undefined}>
                    <div>{column.cell(row)}</div>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {source.more ? (
        <p className="data-more">
          <Button onClick={source.more} loading={source.isMoreLoading}>
            {t("more")}
          </Button>
        </p>
      ) : null}
    </>
  );
}
