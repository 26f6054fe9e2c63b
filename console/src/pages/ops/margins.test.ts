import { describe, expect, it } from "vitest";
import { setLanguage } from "@/i18n";
import { estimatedShare, fraction } from "./Margins";

describe("margins", () => {
  it("shows costs with two places at most", () => {
    setLanguage("en");
    expect([fraction(0.0425), fraction(-12.345), fraction(1200)]).toEqual(["0.04", "-12.34", "1,200"]);
  });

  it("names the share of tokens that no provider counted", () => {
    const line = (estimatedTokens: number) => ({ inputTokens: 900, outputTokens: 100, estimatedTokens });
    expect([estimatedShare(line(0)), estimatedShare(line(1)), estimatedShare(line(250))]).toEqual([null, 1, 25]);
  });
});
