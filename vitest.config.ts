import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Long forms, `*.slow.test.ts`: of packages, and of measurements. They run with `bun run test -- --slow`, or when they are named. */
const slow = "**/*.slow.test.ts";
const isSlow =
  process.env.SVC_TEST_SLOW === "true" || process.argv.some((arg) => /slow\.test/.test(arg));

/** The files that take longest, most of it waiting: started last, one of them would leave the other cores idle. */
const longest = [
  "tests/slow/chaos/chaos.test.ts",
  "tests/ui/wave-rollouts.test.ts",
  "functions/jobs/advance-rollouts.test.ts",
  "tests/core/api-properties.test.ts",
  "tests/slow/floods/floods.test.ts",
  "tests/core/chat-process.test.ts",
  "tests/core/secret-rotation.test.ts",
  "tests/ui/outages.test.ts",
  "tests/core/debian-postgres.slow.test.ts",
  "tests/admin/first-day.slow.test.ts",
  "tests/simulation/simulation.test.ts",
  "tests/simulation/streamed.test.ts",
  "tests/simulation/replay.test.ts",
  "tests/simulation/plants.test.ts",
  "tests/simulation/sources/sources.test.ts",
  "tests/core/pgbouncer.test.ts",
  "tests/core/proxies.test.ts",
  "tests/core/export-process.test.ts",
  "tests/collector/hour-states.test.ts",
  "functions/domain/completeness/write-statement.test.ts",
  "tests/ui/chat.test.ts",
  "tests/ui/records.test.ts",
  "tests/ui/table.test.ts",
  "tests/collector/rotation.test.ts",
  "scripts/package-collector/packages.slow.test.ts",
  "scripts/release/reproducible.slow.test.ts",
  "functions/main.test.ts",
];

/** Runs the longest files first, then the others as vitest does: by their duration in the last run, or by size. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const fileOf = (path: string) => sorted.find(({ moduleId }) => moduleId.endsWith(`/${path}`));
    const first = longest.map(fileOf).filter((file) => file !== undefined);
    return [...first, ...sorted.filter((file) => !first.includes(file))];
  }
}

/** Node tests: beside the code and in tests/. The route suite against workerd has a configuration of its own. */
export default defineConfig({
  test: {
    include: ["{functions,kit,collector,proto,drizzle,scripts,tests,ui}/**/*.test.ts"],
    exclude: ["**/node_modules/**", "tests/workerd/**", ...(isSlow ? [] : [slow])],
    tags: [{ name: "workerd", description: "runs through workerd too (vitest.workerd.config.ts)" }],
    environment: "node",
    // Processes, one more than there are cores, as they often wait. Each runs one file after the other with the modules that it has loaded, since
    // loading them again would take a fifth of the processor time: no module has mutable state.
    pool: "forks",
    isolate: false,
    maxWorkers: availableParallelism() + 1,
    execArgv: ["--import=./tests/support/quicken.ts"],
    setupFiles: ["tests/support/seed-properties.ts"],
    globalSetup: ["tests/global-setup.ts"],
    sequence: { sequencer: LongestFirst },
    // Longer than ten times what a test takes, for a busy machine.
    testTimeout: 120_000,
    // An assertion's message is all that a failed test prints: whole lists, not "[ Array(1) ]".
    chaiConfig: { truncateThreshold: 400 },
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
  },
});
