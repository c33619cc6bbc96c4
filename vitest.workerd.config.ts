import { globSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// Without network: wrangler would look for updates and for the location of the request. Without a worker that stores the traces of each request.
Object.assign(process.env, {
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
  X_LOCAL_EXPLORER: "false",
});

/**
 * `vitest run --config=vitest.workerd.config.ts --tagsFilter=workerd`. The tests that run here, too, are a success of each route;
 * tests/workerd/runtime.test.ts has a refusal of each.
 */
const tag = "workerd";
const tagged = globSync("functions/{v1,http,scim}/**/*.test.ts").filter((file) =>
  readFileSync(file, "utf8").includes(`tags: "${tag}"`),
);

/** Runs tests of routes again, each request through workerd: `createTestCore` sends requests to the worker that the setup starts. */
export default defineConfig({
  test: {
    include: [...tagged, "tests/workerd/*.test.ts"],
    tags: [{ name: tag }],
    environment: "node",
    // As in vitest.config.ts, beside whose processes these run: few, so that nothing times out.
    pool: "forks",
    isolate: false,
    maxWorkers: Math.max(1, availableParallelism() - 1),
    execArgv: ["--import=./tests/support/quicken.ts"],
    setupFiles: ["tests/support/seed-properties.ts"],
    globalSetup: ["tests/workerd/global-setup.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
  },
});
