import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** Node tests: beside the code and in tests/. The route suite against workerd has a configuration of its own. */
export default defineConfig({
  test: {
    include: ["{functions,kit,collector,proto,drizzle,scripts,tests,ui}/**/*.test.ts"],
    exclude: ["**/node_modules/**", "tests/workerd/**"],
    environment: "node",
    // Processes, so that what a test reads of its memory is its own; one more than there are cores, for they often wait.
    pool: "forks",
    maxWorkers: availableParallelism() + 1,
    execArgv: ["--import=./tests/quicken.ts"],
    globalSetup: ["tests/global-setup.ts"],
    // These end what would never end. How long something takes is no reason to fail: a busy machine takes ten times as long.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
  },
});
