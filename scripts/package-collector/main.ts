/**
 * `bun run package-collector [-- --out dist/package] [--platform linux-arm64]… [--check]`: builds the collector for this platform or others
 * as a single executable, in a tar and, if dpkg-deb and rpmbuild are installed, in packages with its unit and completions. With `--check`
 * the executable of this platform enrolls, runs and forwards to a real core on a PATH without Node, and each package is upgraded in a root of
 * its own while it forwards; that of another platform runs in QEMU, where it is installed. Prints one JSON object: paths, sizes, the median
 * time of `--version` and `diag`, and the results of the checks; exit code 1 if one failed.
 */
import { execFileSync } from "node:child_process";
import { mkdir, rm, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { version } from "#collector/version.ts";
import { readCommitTime, readHeadCommit } from "../bundle/read-head-commit.ts";
import { findProgram } from "../images/container-tools.ts";
import { type LabContext, reportFromLab } from "../lab/context.ts";
import { startDeployment } from "../lab/deployment.ts";
import {
  hostPlatform,
  type PackagePlatform,
  packagePlatforms,
} from "../platforms/package-platforms.ts";
import { buildPackages, type CollectorPackages } from "./build-packages.ts";
import { checkEmulated, checkExecutable } from "./check-executable.ts";
import { checkUpgrade } from "./check-upgrade.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    out: { type: "string", default: "dist/package" },
    platform: { type: "string", multiple: true },
    check: { type: "boolean", default: false },
  },
});
const dir = resolve(values.out);

const platforms = (values.platform ?? [hostPlatform() ?? ""]).map((name): PackagePlatform => {
  if (name in packagePlatforms) return name as PackagePlatform;
  throw new Error(`--platform is one of ${Object.keys(packagePlatforms).join(", ")}`);
});

const medianSeconds = (executable: string, args: readonly string[]): number => {
  const samples = Array.from({ length: 7 }, () => {
    const startedAt = performance.now();
    execFileSync(executable, args, { env: {}, stdio: "ignore" });
    return performance.now() - startedAt;
  });
  return Math.round(samples.toSorted((a, b) => a - b)[3] ?? Number.NaN) / 1000;
};

const check = async (
  { executable, debian, rpm, build }: CollectorPackages,
  context: LabContext,
  cleanup: AsyncDisposableStack,
) => {
  const deployment = await startDeployment({}, context, cleanup);
  const lab = { deployment, context, cleanup };
  return {
    executable: await checkExecutable(executable, deployment, context),
    debian: debian && (await checkUpgrade("debian", { built: debian, build }, lab)),
    rpm: rpm && (await checkUpgrade("rpm", { built: rpm, build }, lab)),
  };
};

const sizeOf = async (path: string) => ({ path, bytes: (await stat(path)).size });

await reportFromLab({ name: "package" }, async (context, cleanup) => {
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true });
  const timestamp = readCommitTime();
  process.env.SOURCE_DATE_EPOCH ??= String(timestamp.getTime() / 1000);
  const formats = new Set<"debian" | "rpm">();
  if (findProgram("dpkg-deb")) formats.add("debian");
  if (findProgram("rpmbuild")) formats.add("rpm");
  const reports: Record<string, object> = {};
  let ok = true;
  for (const platform of platforms) {
    context.progress(`building for ${platform}`);
    const built = await buildPackages(dir, platform, {
      commit: readHeadCommit(),
      timestamp,
      formats,
    });
    const { executable, tarball, debian, rpm } = built;
    const runs = platform === hostPlatform();
    const checked = !values.check
      ? null
      : runs
        ? await check(built, context, cleanup)
        : { executable: await checkEmulated(executable, platform) };
    ok &&= checked === null || Object.values(checked).every((check) => check?.ok !== false);
    const packaged = async (path?: string, installed_bytes?: number) =>
      path === undefined ? null : { ...(await sizeOf(path)), installed_bytes };
    reports[platform] = {
      executable: {
        ...(await sizeOf(executable)),
        version_seconds: runs ? medianSeconds(executable, ["--version"]) : null,
        diag_seconds: runs
          ? medianSeconds(executable, ["diag", "--config", "/nonexistent.yaml"])
          : null,
      },
      tarball: await sizeOf(tarball),
      debian: await packaged(debian?.path, debian?.installedBytes),
      rpm: await packaged(rpm?.path, rpm?.installedBytes),
      checked,
    };
  }
  return { ok, version, platforms: reports };
});
