/**
 * `bun run verify`: checks everything about the repository that needs no test run, in seconds. Every step runs, two at a time; faults
 * are printed at the end. Exit code 1 when there is one.
 */

import { steps } from "./steps.ts";

const startedAt = performance.now();
const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`;
const faults: string[] = [];
const pending = steps.values();
const worker = async () => {
  for (const { name, remedy, check } of pending) {
    const stepStartedAt = performance.now();
    const { fault, note = "" } = await check().catch((error: unknown) => ({
      fault: String(error),
      note: "",
    }));
    if (fault !== undefined) faults.push(`\n--- ${name}: ${remedy}\n${fault.trim()}`);
    const outcome = fault === undefined ? "ok    " : "FAILED";
    console.log(
      `${outcome}  ${name.padEnd(28)} ${seconds(stepStartedAt).padStart(7)}  ${note}`.trimEnd(),
    );
  }
};
await Promise.all([worker(), worker()]);
for (const fault of faults) console.log(fault);
console.log(
  `\n${steps.length - faults.length} of ${steps.length} checks passed in ${seconds(startedAt)}`,
);
process.exitCode = faults.length > 0 ? 1 : 0;
