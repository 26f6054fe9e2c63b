import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)), "artiway-client": fileURLToPath(new URL("../clients/typescript/src/index.ts", import.meta.url)) } },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"], setupFiles: ["src/test/setup.ts"], pool: "threads", maxWorkers: 1, testTimeout: 30_000 },
});
