/** What the user marked on a picture. Places are parts of its width and height, from 0 to 1. */
export type Shape = Stroke | Box;

export interface Stroke {
  kind: "stroke";
  /** Of the picture's width. */
  size: number;
  isEraser: boolean;
  points: [x: number, y: number][];
}

export interface Box {
  kind: "box";
  x: number;
  y: number;
  width: number;
  height: number;
}

export type Region = [x: number, y: number, width: number, height: number];

const round = (value: number) => Math.round(value * 10_000) / 10_000;

/** A box between two corners, inside the picture. */
export function boxBetween([x1, y1]: readonly [number, number], [x2, y2]: readonly [number, number]): Box {
  const clamp = (value: number) => Math.min(1, Math.max(0, value));
  const [left, right] = [clamp(Math.min(x1, x2)), clamp(Math.max(x1, x2))];
  const [top, bottom] = [clamp(Math.min(y1, y2)), clamp(Math.max(y1, y2))];
  return { kind: "box", x: round(left), y: round(top), width: round(right - left), height: round(bottom - top) };
}

/** A box from numbers that were typed: moved and cut so that it stays inside the picture. */
export function insideBox(box: Box): Box {
  const x = Math.min(Math.max(box.x, 0), 0.99);
  const y = Math.min(Math.max(box.y, 0), 0.99);
  return { kind: "box", x: round(x), y: round(y), width: round(Math.min(Math.max(box.width, 0.01), 1 - x)), height: round(Math.min(Math.max(box.height, 0.01), 1 - y)) };
}

/** The boxes as `regions`, or null where only a mask can say it. */
export function regionsOf(shapes: readonly Shape[]): Region[] | null {
  if (!shapes.every((shape): shape is Box => shape.kind === "box") || shapes.length > 32) return null;
  return shapes.map(({ x, y, width, height }) => [x, y, Math.min(width, round(1 - x)), Math.min(height, round(1 - y))]);
}

export const isMarked = (shapes: readonly Shape[]): boolean => shapes.some((shape) => shape.kind === "box" || !shape.isEraser);

/** Draw the shapes in one colour. */
export function paint(context: CanvasRenderingContext2D, shapes: readonly Shape[], color: string): void {
  const { width, height } = context.canvas;
  context.lineCap = context.lineJoin = "round";
  for (const shape of shapes) {
    context.globalCompositeOperation = shape.kind === "stroke" && shape.isEraser ? "destination-out" : "source-over";
    context.fillStyle = context.strokeStyle = color;
    if (shape.kind === "box") {
      context.fillRect(shape.x * width, shape.y * height, shape.width * width, shape.height * height);
      continue;
    }
    context.lineWidth = Math.max(1, shape.size * width);
    context.beginPath();
    const [first, ...rest] = shape.points;
    if (!first) continue;
    context.moveTo(first[0] * width, first[1] * height);
    if (rest.length === 0) context.lineTo(first[0] * width + 0.01, first[1] * height);
    for (const [x, y] of rest) context.lineTo(x * width, y * height);
    context.stroke();
  }
  context.globalCompositeOperation = "source-over";
}

/** The mask as the workers read it: white where marked, black elsewhere, in the picture's size. */
export function maskOf(shapes: readonly Shape[], width: number, height: number): HTMLCanvasElement {
  const marks = document.createElement("canvas");
  marks.width = width;
  marks.height = height;
  paint(marks.getContext("2d")!, shapes, "#fff");
  const mask = document.createElement("canvas");
  mask.width = width;
  mask.height = height;
  const context = mask.getContext("2d")!;
  context.fillStyle = "#000";
  context.fillRect(0, 0, width, height);
  context.drawImage(marks, 0, 0);
  return mask;
}
