import { CheckCircleFilled, ClockCircleOutlined, CloseCircleFilled, LoadingOutlined, MinusCircleOutlined } from "@ant-design/icons";
import { useEffect, useState, type ReactNode } from "react";
import { errorText, label as dictionary, useLabel } from "@/api/dictionaries";
import { ApiError } from "@/api/errors";
import type { Node } from "@/api/types";
import { duration, useT } from "@/i18n";
import { layout } from "./layout";

export const isCall = (node: Node): boolean => node.type === "http";

/** Events add the times of a step while the page is open. */
export type TimedNode = Node & { startedAt?: string | null; endedAt?: string | null };

const WIDTH = 212;
const HEIGHT = 68;
const GAP_X = 52;
const GAP_Y = 14;

const ICONS: Record<string, ReactNode> = {
  COMPLETED: <CheckCircleFilled />,
  FAILED: <CloseCircleFilled />,
  TIMEOUT: <CloseCircleFilled />,
  PROCESSING: <LoadingOutlined />,
  QUEUED: <ClockCircleOutlined />,
  PENDING: <ClockCircleOutlined />,
  CANCELLED: <MinusCircleOutlined />,
};

/** "Draw the model 2" for a node called model_2; "HTTP call: notify" for a call, since each calls another target. */
export function useNodeTitle(): (node: TimedNode) => string {
  const label = useLabel();
  return (node) => {
    if (isCall(node)) return `${label("steps", node.step)}: ${node.name}`;
    const [, base, number] = /^(.*?)(?:_(\d+))?$/.exec(node.name)!;
    const title = [node.step, base!].map((name) => dictionary("steps", name)).find(Boolean) ?? label("node_types", node.type);
    return number ? `${title} ${number}` : title;
  };
}

/** The steps with their edges, states and durations. */
export function Dag({ nodes }: { nodes: TimedNode[] }) {
  const t = useT();
  const title = useNodeTitle();
  const { placed, columns, rows } = layout(nodes);
  const isRunning = nodes.some((node) => node.status === "PROCESSING");
  const now = useNow(isRunning);
  const label = useLabel();
  const spot = new Map(placed.map((one) => [one.node.name, one]));
  const x = (column: number) => column * (WIDTH + GAP_X);
  const y = (row: number) => row * (HEIGHT + GAP_Y);
  const width = columns * (WIDTH + GAP_X) - GAP_X;
  const height = rows * (HEIGHT + GAP_Y) - GAP_Y;
  return (
    <div className="dag" tabIndex={0} role="region" aria-label={t("taskSteps")}>
      <div style={{ position: "relative", width, height }}>
        <svg width={width} height={height} aria-hidden="true" className="dag-edges">
          {placed.flatMap(({ node, column, row }) =>
            node.dependsOn.map((name) => {
              const from = spot.get(name);
              if (!from) return null;
              const [x1, y1, x2, y2] = [x(from.column) + WIDTH, y(from.row) + HEIGHT / 2, x(column), y(row) + HEIGHT / 2];
              const middle = (x1 + x2) / 2;
              return <path key={`${name}>${node.name}`} className={from.node.status === "COMPLETED" ? "done" : ""} d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`} />;
            }),
          )}
        </svg>
        <ol className="dag-nodes">
          {placed.map(({ node, column, row }) => {
            const timed = node as TimedNode;
            const took = tookOf(timed, now);
            return (
              <li key={node.nodeId} className={`dag-node ${node.status.toLowerCase()}`} style={{ left: x(column), top: y(row), width: WIDTH, height: HEIGHT }}>
                <span className="dag-icon" aria-hidden="true">
                  {ICONS[node.status]}
                </span>
                <span className="dag-words">
                  <span className="dag-title">{title(timed)}</span>
                  <span className="dag-state">
                    {node.error ? faultText(node.error) : label("node_states", node.status)}
                    {node.status === "PROCESSING" ? ` · ${node.progress} %` : ""}
                    {node.answer ? ` · HTTP ${node.answer.httpStatus}` : ""}
                    {took === null ? "" : ` · ${duration(took)}`}
                    {node.attempt > 1 ? ` · ${t("taskAttempt", { number: node.attempt })}` : ""}
                  </span>
                </span>
                {node.status === "PROCESSING" ? <span className="dag-bar" style={{ width: `${node.progress}%` }} /> : null}
              </li>
            );
          })}
        </ol>
      </div>
    </div>
  );
}

/** What the targets of calls answered, each to be opened. */
export function Answers({ nodes }: { nodes: TimedNode[] }) {
  const t = useT();
  const title = useNodeTitle();
  const answered = nodes.filter((node) => node.answer);
  if (!answered.length) return null;
  return (
    <ul className="answers" aria-label={t("taskAnswers")}>
      {answered.map((node) => (
        <li key={node.nodeId}>
          <details>
            <summary>
              {title(node)} <span className="soft digits">{`HTTP ${node.answer!.httpStatus} · ${duration(node.answer!.elapsedMs / 1000)}`}</span>
            </summary>
            <pre>{node.answer!.text || t("taskAnswerEmpty")}</pre>
          </details>
        </li>
      ))}
    </ul>
  );
}

/** Seconds that a step has run: measured by the worker when it has ended, by the events until then. */
function tookOf(node: TimedNode, now: number): number | null {
  if (node.status !== "PROCESSING" && node.runSeconds !== null) return Math.round(node.runSeconds * 10) / 10;
  if (!node.startedAt || !(node.status === "PROCESSING" || node.endedAt)) return null;
  return Math.max(0, Math.round(((node.endedAt ? Date.parse(node.endedAt) : now) - Date.parse(node.startedAt)) / 100) / 10);
}

/** A failure of a step, in the user's language. */
export const faultText = (fault: { code?: string | null; message?: string | null }): string => errorText(new ApiError(422, { code: fault.code ?? "", message: fault.message ?? "" }));

function useNow(isRunning: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isRunning]);
  return now;
}
