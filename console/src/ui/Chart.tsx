import { useId, useMemo, useState, type PointerEvent } from "react";
import { locale, useT } from "@/i18n";
import "./chart.css";

export interface Line {
  name: string;
  points: { at: number; value: number }[];
  /** A line to compare with: dashed, in the colour of this other line. */
  dashedOf?: number;
}

interface Properties {
  title: string;
  lines: Line[];
  from: number;
  to: number;
  stepMs: number;
  format: (value: number) => string;
  /** A step without a value counts as 0: for counts. Without it the line breaks. */
  isFilled?: boolean;
}

const WIDTH = 720;
const HEIGHT = 200;
const LEFT = 58;
const BOTTOM = 24;
const TOP = 10;
export const COLOURS = 8;

const clock = (at: number, span: number) =>
  new Date(at).toLocaleString(locale(), span > 2 * 86_400_000 ? { month: "numeric", day: "numeric" } : { hour: "2-digit", minute: "2-digit" });

/** A top of the axis that reads well: 1, 2 or 5 times a power of ten. */
export function niceTop(largest: number): number {
  if (largest <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return ([1, 2, 5, 10].find((step) => step * power >= largest * 0.999) ?? 10) * power;
}

/** The values of each step between `from` and `to`; null where nothing was measured. */
export function stepped(line: Line, from: number, to: number, stepMs: number, isFilled: boolean): { at: number; value: number | null }[] {
  const known = new Map(line.points.map((point) => [Math.floor(point.at / stepMs), point.value]));
  const result = [];
  for (let step = Math.floor(from / stepMs); step * stepMs < to; step += 1) result.push({ at: step * stepMs, value: known.get(step) ?? (isFilled ? 0 : null) });
  return result;
}

/** Lines over time with a legend, the values under the pointer, and all values as a table. */
export function Chart({ title, lines, from, to, stepMs, format, isFilled = false }: Properties) {
  const t = useT();
  const id = useId();
  const [hover, setHover] = useState<number | null>(null);
  const drawn = useMemo(() => lines.map((line, index) => ({ name: line.name, style: `c${(line.dashedOf ?? index) % COLOURS}${line.dashedOf === undefined ? "" : " dashed"}`, points: stepped(line, from, to, stepMs, isFilled) })), [lines, from, to, stepMs, isFilled]);
  const top = niceTop(Math.max(0, ...lines.flatMap((line) => line.points.map((point) => point.value))));
  const x = (at: number) => LEFT + ((at - from) / Math.max(1, to - from)) * (WIDTH - LEFT - 8);
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const ticks = Array.from({ length: 5 }, (_, index) => from + ((to - from) * index) / 4);
  const move = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = from + (((event.clientX - box.left) / box.width) * WIDTH - LEFT) * ((to - from) / (WIDTH - LEFT - 8));
    setHover(at < from || at > to ? null : Math.floor(at / stepMs) * stepMs);
  };
  const shown = hover === null ? [] : drawn.map((line) => line.points.find((point) => point.at === hover)?.value ?? null);
  return (
    <figure className="chart" aria-labelledby={id}>
      <figcaption id={id} className="visually-hidden">
        {title}
      </figcaption>
      <div className="chart-area">
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" onPointerMove={move} onPointerLeave={() => setHover(null)}>
          {[0, 0.5, 1].map((part) => (
            <g key={part}>
              <line className="chart-grid" x1={LEFT} x2={WIDTH - 8} y1={y(top * part)} y2={y(top * part)} />
              <text x={LEFT - 8} y={y(top * part) + 4} textAnchor="end">
                {format(top * part)}
              </text>
            </g>
          ))}
          {ticks.map((at, index) => (
            <text key={at} x={x(at)} y={HEIGHT - 6} textAnchor={index === 0 ? "start" : index === 4 ? "end" : "middle"}>
              {clock(at, to - from)}
            </text>
          ))}
          {drawn.map((line) => (
            <path key={line.name} className={`chart-line ${line.style}`} d={pathOf(line.points, x, y)} />
          ))}
          {drawn.map((line) => aloneOf(line.points).map((point) => <circle key={`${line.name}${point.at}`} className={`chart-dot ${line.style}`} cx={x(point.at)} cy={y(point.value)} r={3.5} />))}
          {hover === null ? null : <line className="chart-cursor" x1={x(hover)} x2={x(hover)} y1={TOP} y2={HEIGHT - BOTTOM} />}
        </svg>
        {hover === null ? null : (
          <div className="chart-tip" style={x(hover) > WIDTH / 2 ? { right: `${100 - (x(hover) / WIDTH) * 100 + 1}%` } : { left: `${(x(hover) / WIDTH) * 100 + 1}%` }}>
            <strong>{new Date(hover).toLocaleString(locale(), { dateStyle: "short", timeStyle: "short" })}</strong>
            {drawn.map((line, index) => (
              <span key={line.name}>
                <i className={line.style} /> {line.name} <b className="digits">{shown[index] === null || shown[index] === undefined ? "–" : format(shown[index])}</b>
              </span>
            ))}
          </div>
        )}
      </div>
      {lines.length > 1 ? (
        <ul className="chart-legend">
          {drawn.map((line) => (
            <li key={line.name}>
              <i className={line.style} aria-hidden="true" /> {line.name}
            </li>
          ))}
        </ul>
      ) : null}
      <details>
        <summary>{t("chartValues")}</summary>
        <div className="scroll-x chart-values" role="region" tabIndex={0} aria-label={title}>
          <table className="data">
            <thead>
              <tr>
                <th scope="col">{t("chartTime")}</th>
                {lines.map((line) => (
                  <th key={line.name} scope="col" className="data-number">
                    {line.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {(drawn[0]?.points ?? []).toReversed().map((point) => (
                <tr key={point.at}>
                  <th scope="row">{new Date(point.at).toLocaleString(locale(), { dateStyle: "short", timeStyle: "short" })}</th>
                  {drawn.map((line) => {
                    const value = line.points.find((one) => one.at === point.at)?.value;
                    return (
                      <td key={line.name} className="data-number digits">
                        {value === null || value === undefined ? "–" : format(value)}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

/** Values between two gaps, which a line does not show. */
function aloneOf(points: { at: number; value: number | null }[]): { at: number; value: number }[] {
  const has = (index: number) => (points[index]?.value ?? null) !== null;
  return points.flatMap(({ at, value }, index) => (value !== null && !has(index - 1) && !has(index + 1) ? [{ at, value }] : []));
}

function pathOf(points: { at: number; value: number | null }[], x: (at: number) => number, y: (value: number) => number): string {
  let path = "";
  let isOpen = false;
  for (const [index, point] of points.entries()) {
    if (point.value === null) {
      isOpen = false;
      continue;
    }
    const place = `${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`;
    // A value between two gaps is a dot: a line of no length with round ends.
    const isAlone = !isOpen && (points[index + 1]?.value ?? null) === null;
    path += isOpen ? `L${place}` : isAlone ? `M${place}h0.01` : `M${place}`;
    isOpen = true;
  }
  return path;
}
