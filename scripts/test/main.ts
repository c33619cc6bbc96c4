/**
 * `bun run test [-- --slow] [args]`: runs the vitest configurations of the repository side by side, then prints a summary whose last line is
 * `N passed, N failed`; the one before counts what was skipped. With `--slow` also the long forms of loops and of packages. Other arguments
 * go to vitest (`bun run test functions/v1`). Exit code 1 when a test failed or none ran.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { openTemporaryFolder } from "../temporary-folder.ts";
import { readProgress } from "./results.ts";
import { runWatched } from "./watched-process.ts";

/** The output of the longer run is shown as it comes, that of the other at its end. */
const runs = [
  { name: "node", options: ["--config=vitest.config.ts"], isShown: true },
  {
    name: "workerd",
    options: ["--config=vitest.workerd.config.ts", "--tagsFilter=workerd"],
    isShown: false,
  },
];

const given = process.argv.slice(2);
const args = given.filter((arg) => arg !== "--" && arg !== "--slow");
const isSlow = given.includes("--slow");
const pathOf = (file: string): string => relative(process.cwd(), file);

/** Returns the message of a failure and the first lines of its stack, at most 2,000 characters. */
const shorten = (failure: string): string => {
  const isFrame = (line: string) => /^\s*at /.test(line);
  const lines = stripVTControlCharacters(failure).split("\n");
  return [...lines.filter((line) => !isFrame(line)), ...lines.filter(isFrame).slice(0, 5)]
    .join("\n")
    .slice(0, 2000);
};

/** Three times what the slowest file takes on two busy cores. Tests have timeouts of their own: a longer silence is outside of them. */
const silenceMs = 420_000;

/** Runs vitest on files whose path contains one of `filters`, all without any; returns how it ended, and what its tests did until then. */
const runFiles = async (
  options: readonly string[],
  isShown: boolean,
  filters: readonly string[],
) => {
  await using folder = await openTemporaryFolder("test");
  const results = join(folder.path, "results.jsonl");
  await writeFile(results, "");
  const reporters = ["default", join(import.meta.dirname, "results.ts")].map(
    (name) => `--reporter=${name}`,
  );
  const selection = filters.length > 0 ? ["--passWithNoTests", ...filters] : [];
  const ended = await runWatched({
    args: ["node_modules/vitest/vitest.mjs", "run", ...options, ...reporters, ...selection],
    env: { SVC_TEST_RESULTS: results, SVC_TEST_SLOW: String(isSlow) },
    isShown,
    silenceMs,
  });
  const progress = readProgress(await readFile(results, "utf8"));
  return { ...ended, ...progress };
};

type Attempt = Awaited<ReturnType<typeof runFiles>>;

/** Says where a run fell silent: a fork, a server or a loop that never ends has no timeout. */
const describeStall = (name: string, { descendants, begun, left }: Attempt): string =>
  [
    `${name} printed nothing more for ${silenceMs / 1000} s; ${left.length} of its files had not ended, and are started once more`,
    ...[...begun].map(([file, test]) => `  had begun  ${pathOf(file)}: ${test}`),
    ...descendants.map((process) => `  still ran  ${process}`),
  ].join("\n");

/** Runs a configuration, and once more what of it hangs; returns its results, and what it printed if that is not to be shown at once. */
const run = async ({ name, options, isShown }: (typeof runs)[number]) => {
  const startedAt = performance.now();
  let last = await runFiles(options, isShown, args);
  const attempts = [last];
  if (last.isStalled) {
    console.log(describeStall(name, last));
    if (last.left.length > 0) {
      last = await runFiles(options, isShown, last.left);
      attempts.push(last);
    }
  }
  const files = attempts.flatMap(({ ended }) => ended);
  const tests = files.flatMap(({ file, tests: ofFile }) =>
    ofFile.map((test) => ({ ...test, name: `${pathOf(file)}: ${test.name}` })),
  );
  const failures = [
    ...tests.filter(({ state }) => state === "failed"),
    ...files
      .filter(({ errors }) => errors.length > 0)
      .map(({ file, errors }) => ({ name: pathOf(file), errors })),
  ].map(({ name, errors }) => ({ name, errors }));
  // A run that hangs once each of its files has ended has said what it left. vitest also fails when no test did, such as when a teardown threw.
  const { isStalled, code, left } = last;
  const reason = isStalled ? `printed nothing for ${silenceMs / 1000} s, twice` : "see above";
  const hasFailed = isStalled ? left.length > 0 : code !== 0 && failures.length === 0;
  if (hasFailed) failures.push({ name: "outside of any test", errors: [reason] });
  return {
    name,
    printed: attempts.map(({ printed }) => printed).join(""),
    seconds: (performance.now() - startedAt) / 1000,
    passed: tests.filter(({ state }) => state === "passed").length,
    failures,
    skipped: tests
      .filter(({ state }) => state === "skipped" || state === "pending")
      .map((test) => test.name),
    tests,
  };
};

const results = await Promise.all(runs.map(run));
for (const { printed } of results) process.stdout.write(printed);
for (const { name, seconds, passed, failures, skipped } of results) {
  const counts = `${passed} passed, ${failures.length} failed, ${skipped.length} skipped`;
  console.log(`${name.padEnd(8)} ${counts} in ${seconds.toFixed(1)} s`);
}
const slowest = results.flatMap(({ tests }) => tests).sort((a, b) => b.seconds - a.seconds);
for (const { name, seconds } of slowest.slice(0, 5))
  console.log(`  slow     ${seconds.toFixed(1)} s  ${name}`);
for (const { skipped } of results) for (const name of skipped) console.log(`  skipped  ${name}`);
for (const { name: runName, failures } of results)
  for (const { name, errors } of failures) {
    const indented = errors.map((error) => shorten(error).replaceAll(/^/gm, "           "));
    console.log([`  FAILED   ${name} (${runName})`, ...indented].join("\n"));
  }
const passed = results.reduce((sum, result) => sum + result.passed, 0);
const failed = results.flatMap(({ failures }) => failures).length;
if (passed + failed === 0) console.log("no test ran");
const skips = results.flatMap(({ skipped }) => skipped).length;
if (skips > 0) console.log(`${skips} skipped, by name above: this machine lacks what they need`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
