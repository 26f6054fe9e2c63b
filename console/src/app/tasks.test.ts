import { describe, expect, it } from "vitest";
import type { TaskView } from "@/api/types";
import { patched } from "./tasks";

const node = (name: string, dependsOn: string[] = []) => ({ nodeId: name, name, type: "cutout", status: "PENDING", progress: 0, attempt: 1, dependsOn, error: null, engine: null });
const task = { taskId: "task_1", status: "QUEUED", progress: 0, endedAt: null, nodes: [node("cutout"), node("model_1", ["cutout"])], results: [] } as unknown as TaskView;
const event = (type: string, more: object = {}) => ({ type: `task.${type}`, taskId: "task_1", at: "2026-01-01T00:00:00Z", ...more });

describe("a task that follows its events", () => {
  it("moves a step and the whole", () => {
    const now = [event("started", { node: "cutout", attempt: 1 }), event("progress", { node: "cutout", progress: 50 })].reduce(patched, task);
    expect([now.status, now.progress, now.nodes[0]!.status, now.nodes[0]!.progress]).toEqual(["PROCESSING", 25, "PROCESSING", 50]);
  });

  it("does not let a late progress event reopen a finished step", () => {
    const done = patched(task, event("completed", { node: "cutout", status: "COMPLETED", attempt: 1 }));
    const late = patched(done, event("progress", { node: "cutout", progress: 40 }));
    expect([late.nodes[0]!.status, late.nodes[0]!.progress]).toEqual(["COMPLETED", 100]);
  });

  it("starts at zero in a new attempt", () => {
    const first = patched(task, event("progress", { node: "cutout", progress: 80 }));
    const second = patched(first, event("started", { node: "cutout", attempt: 2 }));
    expect([second.nodes[0]!.attempt, second.nodes[0]!.progress]).toEqual([2, 0]);
  });

  it("keeps the end", () => {
    const ended = patched(task, event("completed", { status: "COMPLETED" }));
    const settled = patched(patched(ended, event("started")), event("settled", { status: "COMPLETED", chargedPoints: 2 }));
    expect([settled.status, settled.progress, settled.chargedPoints]).toEqual(["COMPLETED", 100, 2]);
  });

  it("renders a step that is not about the event as it was", () => {
    expect(patched(task, event("progress", { node: "cutout", progress: 5 })).nodes[1]).toBe(task.nodes[1]);
  });
});
