/**
 * `bun run test [args]`: runs each vitest configuration of the repository, then prints a summary whose last line is
 * `N passed, N failed`. Arguments go to vitest (`bun run test functions/v1`). Exit code 1 when a test failed or none ran.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunCounts } from "./reporter.ts";

const runs = [
  { name: "node", config: "vitest.config.ts" },
  { name: "workerd", config: "vitest.workerd.config.ts" },
].filter(({ config }) => existsSync(config));

const args = process.argv.slice(2);
const folder = await mkdtemp(join(tmpdir(), "svc-test-"));

const run = async ({ name, config }: { name: string; config: string }) => {
  const file = join(folder, `${name}.json`);
  const startedAt = performance.now();
  const child = spawn(
    process.execPath,
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      `--config=${config}`,
      "--reporter=default",
      "--reporter=./scripts/test/reporter.ts",
      ...(args.length > 0 ? ["--passWithNoTests", ...args] : []),
    ],
    { stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, SVC_TEST_COUNTS_FILE: file } },
  );
  const [code] = await once(child, "exit");
  const counts: RunCounts = existsSync(file)
    ? JSON.parse(await readFile(file, "utf8"))
    : { passed: 0, failed: 1, failures: [], skipped: [], slowest: [] };
  // vitest also fails when no test did, such as when a teardown threw.
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  return { name, seconds: (performance.now() - startedAt) / 1000, ...counts };
};

const results: Awaited<ReturnType<typeof run>>[] = [];
try {
  for (const entry of runs) results.push(await run(entry));
} finally {
  await rm(folder, { recursive: true, force: true });
}

const sum = (pick: (result: RunCounts) => number) => results.reduce((total, result) => total + pick(result), 0);
for (const { name, seconds, passed, failed, skipped } of results)
  console.log(
    `${name.padEnd(8)} ${passed} passed, ${failed} failed, ${skipped.length} skipped in ${seconds.toFixed(1)} s`,
  );
const slowest = results.flatMap(({ slowest }) => slowest).sort((a, b) => b.seconds - a.seconds);
for (const { name, seconds } of slowest.slice(0, 5)) console.log(`  slow     ${seconds.toFixed(1)} s  ${name}`);
for (const { skipped } of results) for (const name of skipped) console.log(`  skipped  ${name}`);
for (const { name: run, failures } of results)
  for (const { name, reasons } of failures)
    console.log(
      [`  FAILED   ${name} (${run})`, ...reasons.map((reason) => reason.replaceAll(/^/gm, "           "))].join("\n"),
    );
const passed = sum((result) => result.passed);
const failed = sum((result) => result.failed);
if (passed + failed === 0) console.log("no test ran");
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
