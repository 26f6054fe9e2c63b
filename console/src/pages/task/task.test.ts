import { describe, expect, it } from "vitest";
import type { Node, Result, TaskView } from "@/api/types";
import { fileName } from ".";
import { layout } from "./layout";
import { crc32, zip } from "./zip";

const node = (name: string, ...dependsOn: string[]) => ({ name, dependsOn }) as unknown as Node;

describe("the task page", () => {
  it("places each step after all that it waits for", () => {
    const { placed, columns, rows } = layout([node("cutout"), node("scene_1"), node("scene_2"), node("compose_1", "cutout", "scene_1"), node("last", "compose_1")]);
    expect(placed.map((one) => [one.node.name, one.column, one.row])).toEqual([
      ["cutout", 0, 0],
      ["scene_1", 0, 1],
      ["scene_2", 0, 2],
      ["compose_1", 1, 0],
      ["last", 2, 0],
    ]);
    expect([columns, rows]).toEqual([3, 3]);
  });

  it("gives pictures names that tell them apart", () => {
    const task = { tool: "cutout", createdAt: "2026-11-18T01:02:03Z" } as TaskView;
    expect(fileName(task, { contentType: "image/jpeg" } as Result, 1)).toBe("artiway-cutout-20261118-2.jpg");
  });

  it("packs files that other programs can open", async () => {
    expect(crc32(new TextEncoder().encode("123456789"))).toBe(0xcbf43926);
    const packed = new Uint8Array(await (await zip([{ name: "a.txt", blob: new Blob(["hello"]) }])).arrayBuffer());
    expect([packed[0], packed[1], packed.length]).toEqual([0x50, 0x4b, 30 + 5 + 5 + 46 + 5 + 22]);
  });
});
