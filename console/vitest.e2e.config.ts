import { defineConfig } from "vitest/config";

// Beside the other tests of `make test` a journey may meet a limit of time that it never meets alone: it has one more try,
// which tests/e2e/test_console.py logs.
export default defineConfig({
  test: { retry: 1, environment: "node", include: ["e2e/**/*.spec.ts"], pool: "forks", maxWorkers: 1, isolate: false, fileParallelism: false, testTimeout: 240_000, hookTimeout: 120_000, reporters: ["verbose"] },
});
