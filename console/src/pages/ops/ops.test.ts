import { describe, expect, it } from "vitest";
import { partsOf } from "../text/services";
import { outcomeOf } from "./Outcome";
import { settingText } from "./settingWords";

describe("words of a setting", () => {
  const text = (key: string) => settingText({ key, description: "in English" }, "zh");

  it("are those of the first entry that matches", () => {
    expect(text("price.flow.http")).not.toBe(text("price.flow.cutout"));
    expect(text("limit.upscale")).not.toBe(text("limit.scene"));
    expect(text("tier.vip.weight")).toBe(text("tier.free.weight"));
  });

  it("are the server's where there is no entry, and in English", () => {
    expect(text("no.such.setting.at_all")).toBe("in English");
    expect(settingText({ key: "tier.vip.weight", description: "in English" }, "en")).toBe("in English");
  });
});

describe("the outcome of an act on several rows", () => {
  it("names each row that was refused", () => {
    const results = [
      { id: "task_a", errorCode: null },
      { id: "task_b", errorCode: "TASK_409_STATE" },
    ];
    expect(outcomeOf(results)).toEqual({ done: 1, refused: [{ id: "task_b", code: "TASK_409_STATE" }] });
  });
});

describe("the answer of a text with fields", () => {
  it("is read field by field, without those that are empty", () => {
    expect(partsOf({ tags: ["cup", "white"], text: "", title: "Cup" })).toEqual([
      ["tags", "cup · white"],
      ["title", "Cup"],
    ]);
    expect(partsOf(null)).toEqual([]);
  });
});
