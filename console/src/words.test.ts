import { describe, expect, it } from "vitest";
import { points, setLanguage, translate } from "@/i18n";

describe("text", () => {
  it("follows the language and counts one point", () => {
    setLanguage("en");
    expect([points(1), points(1200), translate("signIn")]).toEqual(["1 point", "1,200 points", "Sign in"]);
    setLanguage("zh");
    expect([points(1), translate("signIn")]).toEqual(["1 积分", "登录"]);
    setLanguage("en");
  });
});
