/**
 * `bun run package-collector [-- --out dist/package] [--check]`: builds the collector as a single executable and, if dpkg-deb is
 * installed, as a Debian package with its unit and completions. With `--check` the executable enrolls, runs and forwards to a real core
 * on a PATH without Node, and the package is installed and purged on a copy of this machine. Prints one JSON object: paths, sizes, the
 * median time of `--version` and `diag`, and the results of the checks; exit code 1 if one failed.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { version } from "../../collector/version.ts";
import { readHeadCommit } from "../bundle/read-head-commit.ts";
import { withLab } from "../lab/context.ts";
import { printNotices } from "../licenses/licenses.ts";
import { nodePackages } from "../licenses/program-packages.ts";
import { packagesOf, shippedFiles } from "../licenses/shipped-packages.ts";
import { buildDebianPackage } from "./build-debian-package.ts";
import { buildExecutable } from "./build-executable.ts";
import { checkExecutable } from "./check-executable.ts";
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

await rm(dir, { recursive: true, force: true });
await mkdir(dir, { recursive: true });
const { executable, metafile } = await buildExecutable(dir, readHeadCommit());
const shipped = [...(await packagesOf(resolve("."), shippedFiles(metafile))), ...(await nodePackages())];
const completions = await createCompletions();
for (const [shell, script] of Object.entries(completions)) await writeFile(join(dir, `completion.${shell}`), script);
const canPackage = spawnSync("dpkg-deb", ["--version"]).status === 0;
const debianPackage = canPackage
  ? await buildDebianPackage(dir, {
      executable,
      completions,
      version,
      notices: printNotices(shipped),
    })
  : null;
const sizeOf = async (path: string) => ({ path, bytes: (await stat(path)).size });
const checked = values.check
  ? {
      executable: await withLab({ name: "package" }, (context, cleanup) =>
        checkExecutable(executable, context, cleanup),
      ),
      debian_package: debianPackage === null ? null : await checkPackage(debianPackage.path),
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
    debian_package:
      debianPackage === null
        ? null
        : { ...(await sizeOf(debianPackage.path)), installed_bytes: debianPackage.installedBytes },
    checked,
  }),
);
process.exitCode = ok ? 0 : 1;
