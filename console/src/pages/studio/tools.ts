import type { Tool } from "@/api/types";

export interface Schema {
  type?: string;
  enum?: string[];
  const?: string;
  anyOf?: Schema[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  default?: unknown;
  items?: Schema;
}

export const paramsOf = (tool: Tool): [string, Schema][] => Object.entries((tool.params as { properties?: Record<string, Schema> }).properties ?? {});

/** A batch tool takes product_1 … product_50. */
export const isBatch = (tool: Tool): boolean => tool.inputs.some((name) => name.endsWith("_1"));
export const BATCH_MOST = 50;

export const isMasked = (tool: Tool): boolean => tool.optionalInputs.includes("mask");
/** Nothing can be done without a mark on the picture. */
export const needsMark = (tool: Tool): boolean => isMasked(tool) && paramsOf(tool).some(([name]) => name === "regions");
export const extraInputs = (tool: Tool): string[] => tool.optionalInputs.filter((name) => name !== "mask");

/** Options that most people leave alone. */
export const ADVANCED: ReadonlySet<string> = new Set(["seed", "format", "quality", "featherPx", "x", "scale", "width", "height", "margin", "trim", "shadow"]);
/** Options of a step that are the point of the tool. */
const MAIN: Record<string, readonly string[]> = { upscale: ["scale"], hd_fix: ["scale"], batch_convert: ["width", "height"], crop: ["margin"], background: ["shadow"] };
export const isAdvanced = (tool: string, name: string): boolean => ADVANCED.has(name) && !MAIN[tool]?.includes(name);

export const SAMPLES = [
  { name: "bottle", file: "/samples/bottle.jpg" },
  { name: "mug", file: "/samples/mug.jpg" },
  { name: "shirt", file: "/samples/shirt.jpg" },
  { name: "shirt-green", file: "/samples/shirt-green.jpg" },
  { name: "coffee", file: "/samples/coffee.jpg" },
] as const;

/** Before and after of each tool, made by the tool itself from the samples. */
export const EXAMPLES: Readonly<Record<string, string>> = {
  model_photo: "shirt",
  outfit_poses: "shirt-green",
  real_model: "shirt-green",
  scene: "bottle",
  background: "mug",
  style: "coffee",
  crop: "mug",
  cutout: "coffee",
  erase: "bottle",
  extend: "mug",
  derive: "bottle",
  repaint: "bottle",
  img2img: "mug",
  hd_fix: "coffee",
  batch_cutout: "bottle",
  upscale: "bottle",
  batch_convert: "mug",
};
/** Their result has another frame than the picture, so a line between both would show nothing. */
export const REFRAMED: ReadonlySet<string> = new Set(["model_photo", "outfit_poses", "real_model", "scene", "crop", "extend", "derive", "batch_convert"]);
export const sampleOf = (name: string): string => `/samples/${name}.jpg`;
export const exampleOf = (tool: string): string => `/samples/after/${tool}.webp`;
