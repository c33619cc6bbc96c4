/**
 * `bun run package-collector [-- --out dist/package]`: the collector as a single executable and, where dpkg-deb is, as a Debian package
 * with its unit and completions. Ends with one JSON object: paths, sizes, and the median time of `--version` and `diag`.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { version } from "../../collector/version.ts";
import { readHeadCommit } from "../bundle/read-head-commit.ts";
import { buildDebianPackage } from "./build-debian-package.ts";
import { buildExecutable } from "./build-executable.ts";
import { createCompletions } from "./completions.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: { out: { type: "string", default: "dist/package" } },
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

await rm(dir, { recursive: true, force: true });
await mkdir(dir, { recursive: true });
const executable = await buildExecutable(dir, readHeadCommit());
const completions = await createCompletions();
for (const [shell, script] of Object.entries(completions)) await writeFile(join(dir, `completion.${shell}`), script);
const canPackage = spawnSync("dpkg-deb", ["--version"]).status === 0;
const debianPackage = canPackage ? await buildDebianPackage(dir, { executable, completions, version }) : null;
const sizeOf = async (path: string) => ({ path, bytes: (await stat(path)).size });
console.log(
  JSON.stringify({
    ok: true,
    version,
    executable: {
      ...(await sizeOf(executable)),
      version_seconds: medianSeconds(executable, ["--version"]),
      diag_seconds: medianSeconds(executable, ["diag", "--config", "/nonexistent.yaml"]),
    },
    debian_package: debianPackage === null ? null : await sizeOf(debianPackage),
  }),
);
