import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { environment: "node", include: ["e2e/**/*.spec.ts"], pool: "forks", maxWorkers: 1, isolate: false, fileParallelism: false, testTimeout: 240_000, hookTimeout: 120_000, reporters: ["verbose"] },
});
