import type { models } from "artiway-client";
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Me = models.MeBody;
export type Tool = models.ToolBody;
export type Task = models.ListedTaskBody;
export type TaskView = models.TaskViewBody;
export type Node = models.NodeBody;
export type Result = models.ResultBody;
export type Estimate = models.EstimateBody;
export type TaskStatus = Task["status"];
export type { Schemas };

export const ENDED: ReadonlySet<string> = new Set(["COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]);
