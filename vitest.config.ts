import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

/** Node tests: beside the code and in tests/. The route suite against workerd has a configuration of its own. */
export default defineConfig({
  test: {
    include: ["{functions,kit,collector,proto,drizzle,scripts,tests,ui}/**/*.test.ts"],
    exclude: ["**/node_modules/**", "tests/workerd/**"],
    environment: "node",
    // Processes, so that a test measures its own memory only; one more than there are cores, as they often wait.
    pool: "forks",
    maxWorkers: availableParallelism() + 1,
    execArgv: ["--import=./tests/quicken.ts"],
    globalSetup: ["tests/global-setup.ts"],
    // Longer than ten times what a test takes, for a busy machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
  },
});
