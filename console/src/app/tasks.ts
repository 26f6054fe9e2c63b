import { useCallback } from "react";
import { useLocation } from "react-router";
import type { InfiniteData } from "@tanstack/react-query";
import { queries } from "@/api/queries";
import { useTaskEvents, type TaskEvent } from "@/api/socket";
import { ENDED, type Task, type TaskView } from "@/api/types";

interface TaskPage {
  items: Task[];
  nextCursor: string | null;
}

const NODE_STATES: Record<string, string> = { "task.queued": "QUEUED", "task.started": "PROCESSING", "task.progress": "PROCESSING", "task.completed": "COMPLETED", "task.failed": "FAILED", "task.cancelled": "CANCELLED" };

/** A task with an event applied. Progress never falls within an attempt: events may overtake each other. */
export function patched(task: TaskView, event: TaskEvent): TaskView {
  if (event.node === undefined) return withTask(task, event);
  const nodes = task.nodes.map((node) => {
    if (node.name !== event.node) return node;
    const status = (event.status ?? NODE_STATES[event.type] ?? node.status) as typeof node.status;
    const attempt = typeof event.attempt === "number" ? event.attempt : node.attempt;
    if (attempt < node.attempt || (attempt === node.attempt && isOver(node.status) && !isOver(status))) return node;
    const progress = status === "COMPLETED" ? 100 : event.progress === undefined ? (attempt > node.attempt ? 0 : node.progress) : Math.max(attempt > node.attempt ? 0 : node.progress, event.progress);
    return {
      ...node,
      status,
      attempt,
      progress,
      runSeconds: attempt > node.attempt ? null : node.runSeconds,
      ...(event.type === "task.started" && event.at ? { startedAt: event.at } : {}),
      ...(isOver(status) && event.at ? { endedAt: event.at } : {}),
    };
  });
  const done = nodes.reduce((sum, node) => sum + (node.status === "COMPLETED" ? 100 : node.progress), 0);
  const status = task.status === "QUEUED" && event.type !== "task.queued" ? "PROCESSING" : task.status;
  return { ...task, nodes, status, progress: ENDED.has(task.status) ? task.progress : Math.max(task.progress, Math.floor(done / Math.max(1, nodes.length))) };
}

const isOver = (status: string) => status === "COMPLETED" || status === "FAILED" || status === "CANCELLED" || status === "TIMEOUT";

function withTask<T extends Pick<Task, "status" | "progress" | "endedAt" | "chargedPoints">>(task: T, event: TaskEvent): T {
  const status = (event.status ?? (event.type === "task.started" ? "PROCESSING" : task.status)) as Task["status"];
  if (ENDED.has(task.status) && !ENDED.has(status)) return task;
  return {
    ...task,
    status,
    ...(ENDED.has(status) ? { progress: status === "COMPLETED" ? 100 : task.progress, endedAt: task.endedAt ?? event.at ?? null } : {}),
    ...(typeof event.chargedPoints === "number" ? { chargedPoints: event.chargedPoints } : {}),
  };
}

/** Events go straight into the cache. A task is read again only when pictures were added to it. */
export function useLiveTasks(onEnd: (event: TaskEvent) => void): void {
  const { pathname } = useLocation();
  const listener = useCallback(
    (event: TaskEvent) => {
      if (!event.type.startsWith("task.")) return;
      const key = ["task", event.taskId];
      queries.setQueryData<TaskView>(key, (task) => task && patched(task, event));
      if (event.node === undefined) {
        queries.setQueriesData<InfiniteData<TaskPage>>({ queryKey: ["tasks"] }, (data) =>
          data && { ...data, pages: data.pages.map((page) => ({ ...page, items: page.items.map((task) => (task.taskId === event.taskId ? withTask(task, event) : task)) })) },
        );
        if (event.type === "task.settled") {
          void queries.invalidateQueries({ queryKey: key });
          void queries.invalidateQueries({ queryKey: ["tasks"] });
          void queries.invalidateQueries({ queryKey: ["me"] });
          void queries.invalidateQueries({ queryKey: ["points"] });
        } else if (event.status !== undefined && ENDED.has(event.status) && pathname !== `/tasks/${event.taskId}`) onEnd(event);
      }
    },
    [onEnd, pathname],
  );
  const resync = useCallback(() => {
    void queries.invalidateQueries({ queryKey: ["task"] });
    void queries.invalidateQueries({ queryKey: ["tasks"] });
  }, []);
  useTaskEvents(listener, resync);
}
