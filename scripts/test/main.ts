/**
 * `bun run test [args]`: runs the vitest configurations of the repository side by side, then prints a summary whose last line is
 * `N passed, N failed`; the one before counts what was skipped. Arguments go to vitest (`bun run test functions/v1`). Exit code 1 when a test
 * failed or none ran.
 */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { type EndedProcess, runWatched } from "./watched-process.ts";

/** The parts of vitest's JSON report that the summary uses. */
interface VitestReport {
  testResults: {
    /** The file. */
    name: string;
    status: string;
    /** Why the file did not load. */
    message: string;
    assertionResults: { fullName: string; status: string; duration?: number; failureMessages: string[] }[];
  }[];
}

/** The output of the longer run is shown as it comes, that of the other at its end. */
const runs = [
  { name: "node", config: "vitest.config.ts", isShown: true },
  { name: "workerd", config: "vitest.workerd.config.ts", isShown: false },
];

const args = process.argv.slice(2);
const folder = await mkdtemp(join(tmpdir(), "svc-test-"));

/** Returns the message of a failure and the first lines of its stack, at most 2,000 characters. */
const shorten = (failure: string): string => {
  const isFrame = (line: string) => /^\s*at /.test(line);
  const lines = stripVTControlCharacters(failure).split("\n");
  return [...lines.filter((line) => !isFrame(line)), ...lines.filter(isFrame).slice(0, 5)].join("\n").slice(0, 2000);
};

/** Three times what the slowest file takes on two busy cores. Tests have timeouts of their own: a longer silence is outside of them. */
const silenceMs = 420_000;

/** Runs vitest, and once more if it falls silent: a fork or a server that never starts has no timeout. */
const runVitest = async (name: string, isShown: boolean, options: readonly string[]): Promise<EndedProcess> => {
  const vitest = { args: ["node_modules/vitest/vitest.mjs", "run", ...options], isShown, silenceMs };
  const first = await runWatched(vitest);
  if (!first.isStalled) return first;
  process.stdout.write(first.printed);
  console.log(`${name} printed nothing more for ${silenceMs / 1000} s: its tests are started once more`);
  return runWatched(vitest);
};

/** Runs a configuration; returns its results, and what it printed if that is not to be shown at once. */
const run = async ({ name, config, isShown }: (typeof runs)[number]) => {
  const file = join(folder, `${name}.json`);
  const startedAt = performance.now();
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${file}`];
  const filters = args.length > 0 ? ["--passWithNoTests", ...args] : [];
  const options = [`--config=${config}`, ...reporters, ...filters];
  const { code, printed, isStalled } = await runVitest(name, isShown, options);
  const report: VitestReport = existsSync(file) ? JSON.parse(await readFile(file, "utf8")) : { testResults: [] };
  const tests = report.testResults.flatMap(({ name: path, assertionResults }) =>
    assertionResults.map((test) => ({ ...test, name: `${relative(process.cwd(), path)}: ${test.fullName}` })),
  );
  const failures = [
    ...tests
      .filter(({ status }) => status === "failed")
      .map((test) => ({ name: test.name, reasons: test.failureMessages })),
    ...report.testResults
      .filter(
        (result) => result.status === "failed" && result.assertionResults.every((test) => test.status !== "failed"),
      )
      .map(({ name: path, message }) => ({ name: relative(process.cwd(), path), reasons: [message] })),
  ];
  // vitest also fails when no test did, such as when a teardown threw.
  const reason = isStalled ? `printed nothing for ${silenceMs / 1000} s, twice` : "see above";
  if (code !== 0 && failures.length === 0) failures.push({ name: "outside of any test", reasons: [reason] });
  return {
    name,
    printed,
    seconds: (performance.now() - startedAt) / 1000,
    passed: tests.filter(({ status }) => status === "passed").length,
    failures,
    skipped: tests.filter(({ status }) => status === "skipped" || status === "pending").map((test) => test.name),
    durations: tests.map(({ name: test, duration = 0 }) => ({ name: test, seconds: duration / 1000 })),
  };
};

const results = await Promise.all(runs.map(run)).finally(() => rm(folder, { recursive: true, force: true }));
for (const { printed } of results) process.stdout.write(printed);
for (const { name, seconds, passed, failures, skipped } of results) {
  const counts = `${passed} passed, ${failures.length} failed, ${skipped.length} skipped`;
  console.log(`${name.padEnd(8)} ${counts} in ${seconds.toFixed(1)} s`);
}
const slowest = results.flatMap(({ durations }) => durations).sort((a, b) => b.seconds - a.seconds);
for (const { name, seconds } of slowest.slice(0, 5)) console.log(`  slow     ${seconds.toFixed(1)} s  ${name}`);
for (const { skipped } of results) for (const name of skipped) console.log(`  skipped  ${name}`);
for (const { name: runName, failures } of results)
  for (const { name, reasons } of failures) {
    const indented = reasons.map((reason) => shorten(reason).replaceAll(/^/gm, "           "));
    console.log([`  FAILED   ${name} (${runName})`, ...indented].join("\n"));
  }
const passed = results.reduce((sum, result) => sum + result.passed, 0);
const failed = results.reduce((sum, result) => sum + result.failures.length, 0);
if (passed + failed === 0) console.log("no test ran");
const skips = results.reduce((sum, { skipped }) => sum + skipped.length, 0);
if (skips > 0) console.log(`${skips} skipped, by name above: this machine lacks what they need`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
