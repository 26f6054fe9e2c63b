import type { Schemas, Tool } from "@/api/types";
import { valueText } from "@/i18n";
import type { Draft } from "./draft";
import { send, toPng, type Picture } from "./picture";
import { isMarked, maskOf, regionsOf, type Shape } from "./shapes";
import { isBatch, isMasked, needsMark, paramsOf } from "./tools";

export type Submission = Schemas["SubmitBody"];
export type Lack = "picture" | "mark" | null;

/** What is missing before the tool can run. Nothing is asked of the server until it is there. */
export function lackOf(tool: Tool, draft: Draft): Lack {
  if (draft.pictures.length === 0) return "picture";
  if (needsMark(tool) && !isMarked(draft.shapes)) return "mark";
  return null;
}

/** The body of POST /tasks and of the estimate. Waits for the uploads. */
export async function submissionOf(tool: Tool, draft: Draft): Promise<Submission> {
  const names = new Set(paramsOf(tool).map(([name]) => name));
  const params = Object.fromEntries(Object.entries(draft.params).filter(([name, value]) => names.has(name) && value !== undefined));
  const inputs: Record<string, string> = {};
  if (isBatch(tool)) {
    const base = tool.inputs[0]!.replace(/_1$/, "");
    for (const [at, picture] of draft.pictures.entries()) inputs[`${base}_${at + 1}`] = await picture.upload;
  } else inputs[tool.inputs[0]!] = await draft.pictures[0]!.upload;
  for (const [name, picture] of Object.entries(draft.extra)) if (tool.optionalInputs.includes(name)) inputs[name] = await picture.upload;
  if (isMasked(tool) && isMarked(draft.shapes)) {
    const regions = names.has("regions") ? regionsOf(draft.shapes) : null;
    if (regions) params.regions = regions;
    else inputs.mask = await maskUpload(draft.pictures[0]!, draft.shapes);
  }
  const count = isBatch(tool) ? undefined : (draft.count ?? tool.count.default);
  return { tool: tool.tool, inputs, params, priority: "NORMAL", ...(count === undefined || tool.count.maximum === 1 ? {} : { count }) };
}

/** One upload for each state of the marks: estimate and submission share it. */
const masks = new WeakMap<readonly Shape[], Promise<string>>();

function maskUpload(picture: Picture, shapes: readonly Shape[]): Promise<string> {
  let upload = masks.get(shapes);
  if (!upload) {
    upload = toPng(maskOf(shapes, picture.width, picture.height)).then((blob) => send(blob, "image/png"));
    upload.catch(() => masks.delete(shapes));
    masks.set(shapes, upload);
  }
  return upload;
}

/** The price before the server is asked. */
export function priceOf(tool: Tool, draft: Draft): number {
  return tool.pricePoints * (isBatch(tool) ? Math.max(1, draft.pictures.length) : (draft.count ?? tool.count.default ?? 1));
}

/** Why a task cannot start, for the English sentence of the estimate. */
const NO_START: [RegExp, string][] = [
  [/is paused/, "lane_paused"],
  [/no worker/, "no_worker"],
  [/is stopped/, "circuit_open"],
  [/switched off/, "model_off"],
  [/may run no node/, "tenant_off"],
];

export function noStartText(detail: string | null): string {
  const found = NO_START.find(([pattern]) => pattern.test(detail ?? ""));
  return valueText("waiting", found?.[1] ?? "unknown");
}

// ------------------------------------------------------------------ the same task by API

/** The key is part of the text: the command starts its task once, however often it runs. */
export function asCurl(body: Submission, origin: string = location.origin, key: string = crypto.randomUUID()): string {
  return [
    `curl ${origin}/api/v1/tasks \\`,
    `  -H "Authorization: Bearer $ARTIWAY_KEY" \\`,
    `  -H "Idempotency-Key: ${key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
  ].join("\n");
}

export function asPython(body: Submission, origin: string = location.origin): string {
  const text = JSON.stringify(body, null, 4).replaceAll("true", "True").replaceAll("false", "False").replaceAll("null", "None");
  return `import os, uuid, requests\n\nanswer = requests.post(\n    "${origin}/api/v1/tasks",\n    headers={"Authorization": f"Bearer {os.environ['ARTIWAY_KEY']}", "Idempotency-Key": str(uuid.uuid4())},\n    json=${text.replaceAll("\n", "\n    ")},\n)\nanswer.raise_for_status()\nprint(answer.json()["taskId"])\n`;
}
