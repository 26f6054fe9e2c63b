import type { components } from "./schema";

type Schemas = components["schemas"];

export type Me = Schemas["MeBody"];
export type Tool = Schemas["ToolBody"];
export type Task = Schemas["ListedTaskBody"];
export type TaskView = Schemas["TaskViewBody"];
export type Node = Schemas["NodeBody"];
export type Result = Schemas["ResultBody"];
export type Estimate = Schemas["EstimateBody"];
export type TaskStatus = Task["status"];
export type { Schemas };

export const ENDED: ReadonlySet<string> = new Set(["COMPLETED", "PARTIAL", "FAILED", "CANCELLED"]);
