import { mergeConfig } from "vitest/config";
import base from "./vitest.e2e.config";

export default mergeConfig(base, { test: { include: ["e2e/shots.ts"] } });
