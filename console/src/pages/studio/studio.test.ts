import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Tool } from "@/api/types";
import { draftOf } from "./draft";
import { contentTypeOf } from "./picture";
import { asCurl, lackOf, noStartText, priceOf, submissionOf } from "./request";
import { boxBetween, insideBox, regionsOf, type Shape } from "./shapes";

const bytes = (text: string) => Uint8Array.from(text, (one) => one.charCodeAt(0));
const tool = (more: object) => ({ tool: "t", pricePoints: 2, inputs: ["product"], optionalInputs: [], count: { minimum: 1, maximum: 1, default: 1 }, params: { properties: {} }, ...more }) as unknown as Tool;
const picture = (id: string) => ({ id, name: id, url: "", width: 10, height: 10, upload: Promise.resolve(`inp_${id}`) });
const ERASE = tool({ tool: "erase", optionalInputs: ["mask"], params: { properties: { regions: { type: "array" } } } });
const BATCH = tool({ tool: "batch_cutout", inputs: ["product_1"] });

describe("pictures", () => {
  it("are known by their first bytes", () => {
    expect(contentTypeOf(bytes("\x89PNG\r\n\x1a\n...."))).toBe("image/png");
    expect(contentTypeOf(bytes("\xff\xd8\xff\xe0...."))).toBe("image/jpeg");
    expect(contentTypeOf(bytes("RIFF....WEBP"))).toBe("image/webp");
    expect(contentTypeOf(bytes("just a text"))).toBeNull();
  });
});

describe("marks", () => {
  it("become boxes inside the picture", () => {
    expect(boxBetween([0.9, 0.9], [1.4, -0.2])).toEqual({ kind: "box", x: 0.9, y: 0, width: 0.1, height: 0.9 });
    expect(insideBox({ kind: "box", x: 0.8, y: 0.5, width: 0.6, height: 0 })).toEqual({ kind: "box", x: 0.8, y: 0.5, width: 0.2, height: 0.01 });
  });

  it("are regions while they are boxes alone", () => {
    const box: Shape = { kind: "box", x: 0.1, y: 0.2, width: 0.3, height: 0.4 };
    expect(regionsOf([box])).toEqual([[0.1, 0.2, 0.3, 0.4]]);
    expect(regionsOf([box, { kind: "stroke", size: 0.1, isEraser: false, points: [[0, 0]] }])).toBeNull();
  });
});

describe("a submission", () => {
  it("is not asked for before it is complete", () => {
    const draft = { ...draftOf("erase") };
    expect(lackOf(ERASE, draft)).toBe("picture");
    expect(lackOf(ERASE, { ...draft, pictures: [picture("a")] })).toBe("mark");
    expect(lackOf(ERASE, { ...draft, pictures: [picture("a")], shapes: [{ kind: "box", x: 0, y: 0, width: 1, height: 1 }] })).toBeNull();
  });

  it("names the boxes as regions", async () => {
    const draft = { ...draftOf("erase"), pictures: [picture("a")], shapes: [{ kind: "box" as const, x: 0.25, y: 0.25, width: 0.5, height: 0.5 }] };
    expect(await submissionOf(ERASE, draft)).toMatchObject({ inputs: { product: "inp_a" }, params: { regions: [[0.25, 0.25, 0.5, 0.5]] } });
  });

  it("numbers the pictures of a batch and prices each", async () => {
    const draft = { ...draftOf("batch_cutout"), pictures: [picture("a"), picture("b"), picture("c")] };
    expect((await submissionOf(BATCH, draft)).inputs).toEqual({ product_1: "inp_a", product_2: "inp_b", product_3: "inp_c" });
    expect(priceOf(BATCH, draft)).toBe(6);
  });

  it("can be copied as a command", () => {
    expect(asCurl({ tool: "cutout", inputs: { product: "inp_1" }, params: { prompt: "it's" }, priority: "NORMAL" }, "https://x.example")).toContain(`"prompt":"it'\\''s"`);
  });
});

describe("why a task cannot start", () => {
  it("has words of its own for each sentence of the estimate", () => {
    const source = readFileSync("../layers/core/artiway/tasks/estimates.py", "utf8");
    const sentences = [...source.matchAll(/WaitingFor\.\w+: "([^"]+)"/g)].map((found) => found[1]!);
    expect(sentences.length).toBeGreaterThanOrEqual(5);
    const words = sentences.map(noStartText);
    expect(new Set(words).size).toBe(sentences.length);
    expect(words).not.toContain(noStartText("something new"));
  });
});
