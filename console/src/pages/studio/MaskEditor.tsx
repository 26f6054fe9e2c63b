import { BorderOutlined, ClearOutlined, DeleteOutlined, HighlightOutlined, PlusOutlined, ScissorOutlined, UndoOutlined } from "@ant-design/icons";
import { Button, InputNumber, Segmented, Slider } from "antd";
import { useEffect, useRef, useState, type PointerEvent } from "react";
import { useT } from "@/i18n";
import type { Picture } from "./picture";
import { boxBetween, insideBox, paint, type Box, type Shape } from "./shapes";

type Mode = "brush" | "eraser" | "box";
const SMALLEST_BOX = 0.01;
const CANVAS_SIDE = 1400;

/** Mark places on a picture with a brush, with boxes, or with numbers alone. */
export function MaskEditor({ picture, shapes, onChange, hint }: { picture: Picture; shapes: Shape[]; onChange: (shapes: Shape[]) => void; hint: string }) {
  const t = useT();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [mode, setMode] = useState<Mode>("brush");
  const [size, setSize] = useState(6);
  const [drawing, setDrawing] = useState<Shape | null>(null);
  const start = useRef<[number, number] | null>(null);
  const scale = Math.min(1, CANVAS_SIDE / Math.max(picture.width, picture.height));

  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    context.clearRect(0, 0, context.canvas.width, context.canvas.height);
    paint(context, drawing ? [...shapes, drawing] : shapes, "#f0277a");
  }, [shapes, drawing, picture.id, scale]);

  const place = (event: PointerEvent<HTMLCanvasElement>): [number, number] => {
    const area = event.currentTarget.getBoundingClientRect();
    return [(event.clientX - area.left) / area.width, (event.clientY - area.top) / area.height];
  };
  const begin = (event: PointerEvent<HTMLCanvasElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    const point = place(event);
    start.current = point;
    setDrawing(mode === "box" ? boxBetween(point, point) : { kind: "stroke", size: size / 100, isEraser: mode === "eraser", points: [point] });
  };
  const move = (event: PointerEvent<HTMLCanvasElement>) => {
    if (!drawing || !start.current) return;
    const point = place(event);
    setDrawing(drawing.kind === "box" ? boxBetween(start.current, point) : { ...drawing, points: [...drawing.points, point] });
  };
  const end = () => {
    if (drawing && (drawing.kind === "stroke" || (drawing.width > SMALLEST_BOX && drawing.height > SMALLEST_BOX))) onChange([...shapes, drawing]);
    setDrawing(null);
    start.current = null;
  };
  const boxes = shapes.flatMap((shape, at) => (shape.kind === "box" ? [{ box: shape, at }] : []));
  const replace = (at: number, box: Box) => onChange(shapes.map((shape, other) => (other === at ? insideBox(box) : shape)));

  return (
    <div className="stack tight">
      <p className="soft">{hint}</p>
      <div className="row">
        <Segmented<Mode>
          aria-label={t("markTool")}
          value={mode}
          onChange={setMode}
          options={[
            { value: "brush", label: t("markBrush"), icon: <HighlightOutlined /> },
            { value: "box", label: t("markBox"), icon: <BorderOutlined /> },
            { value: "eraser", label: t("markEraser"), icon: <ScissorOutlined /> },
          ]}
        />
        {mode === "box" ? null : (
          <div style={{ width: 130 }}>
            <Slider min={1} max={20} value={size} onChange={setSize} ariaLabelForHandle={t("markSize")} tooltip={{ formatter: (value) => `${t("markSize")}: ${value} %` }} />
          </div>
        )}
        <Button icon={<UndoOutlined />} disabled={!shapes.length} onClick={() => onChange(shapes.slice(0, -1))}>
          {t("markUndo")}
        </Button>
        <Button icon={<ClearOutlined />} disabled={!shapes.length} onClick={() => onChange([])}>
          {t("markClear")}
        </Button>
      </div>
      <div className="mask-area" style={{ aspectRatio: `${picture.width} / ${picture.height}`, maxWidth: `calc(58vh * ${picture.width / picture.height})` }}>
        <img src={picture.url} alt={picture.name} />
        <canvas
          ref={canvas}
          width={Math.round(picture.width * scale)}
          height={Math.round(picture.height * scale)}
          aria-label={t("markCanvas")}
          role="img"
          data-testid="mask-canvas"
          onPointerDown={begin}
          onPointerMove={move}
          onPointerUp={end}
          onPointerCancel={end}
        />
      </div>
      <fieldset className="boxes">
        <legend>{t("boxesTitle")}</legend>
        {boxes.map(({ box, at }, index) => (
          <div className="row box-row" key={at}>
            <span className="soft">{index + 1}</span>
            {(["x", "y", "width", "height"] as const).map((part) => (
              <InputNumber
                key={part}
                aria-label={t("boxPart", { number: index + 1, part: t(`box_${part}`) })}
                prefix={<span className="soft">{t(`box_${part}`)}</span>}
                suffix="%"
                min={0}
                max={100}
                precision={0}
                value={Math.round(box[part] * 100)}
                onChange={(value) => value !== null && replace(at, { ...box, [part]: value / 100 })}
              />
            ))}
            <Button type="text" icon={<DeleteOutlined />} aria-label={t("boxRemove", { number: index + 1 })} onClick={() => onChange(shapes.filter((_, other) => other !== at))} />
          </div>
        ))}
        <Button icon={<PlusOutlined />} onClick={() => onChange([...shapes, { kind: "box", x: 0.25, y: 0.25, width: 0.5, height: 0.5 }])}>
          {t("boxAdd")}
        </Button>
      </fieldset>
    </div>
  );
}
