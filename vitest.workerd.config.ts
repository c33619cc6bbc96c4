import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// wrangler would otherwise look for updates and for the request's place on the network.
Object.assign(process.env, { WRANGLER_SEND_METRICS: "false", CLOUDFLARE_CF_FETCH_ENABLED: "false" });

/** The route tests once more, each request through workerd: `createTestCore` sends to the worker that the setup starts. */
export default defineConfig({
  test: {
    include: ["functions/{v1,http}/**/*.test.ts", "tests/workerd/*.test.ts"],
    environment: "node",
    // Processes, so that what a test reads of its memory is its own; one more than there are cores, for they often wait.
    pool: "forks",
    maxWorkers: availableParallelism() + 1,
    execArgv: ["--import=./tests/quicken.ts"],
    globalSetup: ["tests/workerd/global-setup.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
  },
});
