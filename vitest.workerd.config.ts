import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

// Without network: wrangler would look for updates and for the location of the request. Without a worker that stores the traces of each request.
Object.assign(process.env, {
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
  X_LOCAL_EXPLORER: "false",
});

/** Tests of `functions/v1`, `functions/http` and `functions/scim` that run in Node alone, each with its reason; they are not counted here. */
const nodeOnly: Readonly<Record<string, string>> = {
  "functions/v1/collector/health/export-slots.test.ts":
    "slots count per process; in workerd each request has its own app",
  "functions/scim/limits.test.ts":
    "limits count per process; in workerd each request has its own app",
  "functions/http/csv.test.ts": "calls a function and no route",
  "functions/v1/operator/token-exchange.test.ts":
    "reads the issuers from a file, and counts refusals per process",
  "functions/v1/collector/wrong-clock.test.ts":
    "gives core a clock of its machine beside that of its database",
  "functions/v1/chat/sessions/turn.test.ts":
    "plays the model and the SQL tools, which are functions in this process",
  "functions/v1/collector/hosts/follow-envelopes.test.ts":
    "reads a stream without an end; what sends requests to workerd here reads whole responses",
  "functions/http/parse-request.test.ts":
    "mounts a route of its own, which the worker does not have",
  "functions/http/resource.test.ts": "mounts routes of its own, which the worker does not have",
  "functions/http/text-stream.test.ts": "calls a function and no route",
};

/**
 * Tests whose routes the others reach too: they are about rules and rows, which are the same code in Node. Each route keeps a success, or the
 * setup fails the run, and a refusal (tests/workerd/runtime.test.ts).
 */
const shownInNode = [
  "audit-events/list",
  "collector/config-desired",
  "collector/enroll-{accidents,groups,refusals}",
  "collector/enrollment-policies/simulate",
  "collector/health/{recovered,report,reports-pool}",
  "collector/{heartbeat,labels,management-refusals}",
  "rotated-secret",
].map((name) => `functions/v1/${name}.test.ts`);

/** Runs route tests again, each request through workerd: `createTestCore` sends requests to the worker that the setup starts. */
export default defineConfig({
  test: {
    include: ["functions/{v1,http,scim}/**/*.test.ts", "tests/workerd/*.test.ts"],
    exclude: [
      ...Object.keys(nodeOnly),
      ...shownInNode,
      "functions/scim/{okta,people,restored,two-cores}.test.ts",
    ],
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
