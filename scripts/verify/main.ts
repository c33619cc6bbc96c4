/**
 * `bun run verify`: everything that can be said about the repository without running it, in seconds. Every step runs, two at a time;
 * what is wrong is printed at the end. Exit code 1 when anything is.
 */

import { steps } from "./steps.ts";
import { createTaskQueue } from "./task-queue.ts";

const startedAt = performance.now();
const run = createTaskQueue(2);
const results = await Promise.all(
  steps.map((step) =>
    run(async () => {
      const stepStartedAt = performance.now();
      const fault = await step
        .check()
        .catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
      const seconds = ((performance.now() - stepStartedAt) / 1000).toFixed(1);
      console.log(`${fault === undefined ? "ok    " : "FAILED"}  ${step.name.padEnd(28)} ${seconds.padStart(5)} s`);
      return { step, fault };
    }),
  ),
);

const failed = results.filter(({ fault }) => fault !== undefined);
for (const { step, fault } of failed) console.log(`\n--- ${step.name}: ${step.remedy}\n${fault?.trim()}`);
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(`\n${steps.length - failed.length} of ${steps.length} checks passed in ${seconds} s`);
process.exitCode = failed.length > 0 ? 1 : 0;
