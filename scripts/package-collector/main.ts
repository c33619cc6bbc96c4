/**
 * `bun run package-collector [-- --out dist/package] [--check]`: the collector as a single executable and, where dpkg-deb is, as a Debian
 * package with its unit and completions. With `--check` the executable enrolls, runs and forwards at a real core on a PATH without Node,
 * and the package is installed and purged on a copy of this machine. Ends with one JSON object: paths, sizes, the median time of
 * `--version` and `diag`, and what was checked; exit code 1 if that did not hold.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { version } from "../../collector/version.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import { readHeadCommit } from "../bundle/read-head-commit.ts";
import { buildDebianPackage } from "./build-debian-package.ts";
import { buildExecutable } from "./build-executable.ts";
import { checkExecutable, type ExecutableReport } from "./check-executable.ts";
import { checkPackage } from "./check-package.ts";
import { createCompletions } from "./completions.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: { out: { type: "string", default: "dist/package" }, check: { type: "boolean", default: false } },
});
const dir = resolve(values.out);

const medianSeconds = (executable: string, args: readonly string[]): number => {
  const samples = Array.from({ length: 7 }, () => {
    const startedAt = performance.now();
    execFileSync(executable, args, { env: {}, stdio: "ignore" });
    return performance.now() - startedAt;
  });
  return Math.round(samples.toSorted((a, b) => a - b)[3] ?? Number.NaN) / 1000;
};

const check = async (executable: string): Promise<ExecutableReport> => {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => stop.abort(new Error(name)));
  await using cleanup = new AsyncDisposableStack();
  const work = await mkdtemp(join(tmpdir(), "package-check-"));
  cleanup.defer(() => rm(work, { recursive: true, force: true }));
  const surroundings = {
    dir: work,
    clock: systemClock,
    entropy: systemEntropy,
    signal: stop.signal,
    abort: (reason: Error) => stop.abort(reason),
    progress: (line: string) => void process.stderr.write(`${line}\n`),
  };
  return await checkExecutable(executable, surroundings, cleanup);
};

await rm(dir, { recursive: true, force: true });
await mkdir(dir, { recursive: true });
const executable = await buildExecutable(dir, readHeadCommit());
const completions = await createCompletions();
for (const [shell, script] of Object.entries(completions)) await writeFile(join(dir, `completion.${shell}`), script);
const canPackage = spawnSync("dpkg-deb", ["--version"]).status === 0;
const debianPackage = canPackage ? await buildDebianPackage(dir, { executable, completions, version }) : null;
const sizeOf = async (path: string) => ({ path, bytes: (await stat(path)).size });
const checked = values.check
  ? {
      executable: await check(executable),
      debian_package: debianPackage === null ? null : await checkPackage(debianPackage),
    }
  : null;
const ok = checked === null || (checked.executable.ok && checked.debian_package?.ok !== false);
console.log(
  JSON.stringify({
    ok,
    version,
    executable: {
      ...(await sizeOf(executable)),
      version_seconds: medianSeconds(executable, ["--version"]),
      diag_seconds: medianSeconds(executable, ["diag", "--config", "/nonexistent.yaml"]),
    },
    debian_package: debianPackage === null ? null : await sizeOf(debianPackage),
    checked,
  }),
);
process.exitCode = ok ? 0 : 1;
