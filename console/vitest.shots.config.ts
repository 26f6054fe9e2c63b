import base from "./vitest.e2e.config.ts";

export default { ...base, test: { ...base.test, include: ["e2e/shots.ts", "e2e/shots-operations.ts"] } };
