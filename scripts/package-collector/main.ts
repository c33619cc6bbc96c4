/**
 * `bun run package-collector [-- --out dist/package] [--platform linux-arm64]…`: builds the collector for this platform or others
 * as a single executable, in a tar and, if dpkg-deb and rpmbuild are installed, in packages with its unit and completions. Prints one JSON
 * object: paths, sizes, and the median time of `--version` and `diag` of the executable of this platform.
 */
import { execFileSync } from "node:child_process";
import { mkdir, rm, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { version } from "#collector/version.ts";
import { readCommitTime, readHeadCommit } from "../bundle/read-head-commit.ts";
import { findProgram } from "../images/container-tools.ts";
import { reportFromLab } from "../lab/context.ts";
import {
  hostPlatform,
  type PackagePlatform,
  packagePlatforms,
} from "../platforms/package-platforms.ts";
import { readCommandOptions } from "../read-command-options.ts";
import { buildPackages } from "./build-packages.ts";

const values = readCommandOptions({ out: "dist/package", platform: [] });
const dir = resolve(values.out);

const platforms = (values.platform.length > 0 ? values.platform : [hostPlatform() ?? ""]).map(
  (name): PackagePlatform => {
    if (name in packagePlatforms) return name as PackagePlatform;
    throw new Error(`--platform is one of ${Object.keys(packagePlatforms).join(", ")}`);
  },
);

const medianSeconds = (executable: string, args: readonly string[]): number => {
  const samples = Array.from({ length: 7 }, () => {
    const startedAt = performance.now();
    execFileSync(executable, args, { env: {}, stdio: "ignore" });
    return performance.now() - startedAt;
  });
  return Math.round(samples.toSorted((a, b) => a - b)[3] ?? Number.NaN) / 1000;
};

const sizeOf = async (path: string) => ({ path, bytes: (await stat(path)).size });

await reportFromLab({ name: "package" }, async ({ progress }) => {
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir, { recursive: true });
  const timestamp = readCommitTime();
  process.env.SOURCE_DATE_EPOCH ??= String(timestamp.getTime() / 1000);
  const formats = new Set<"debian" | "rpm">();
  if (findProgram("dpkg-deb")) formats.add("debian");
  if (findProgram("rpmbuild")) formats.add("rpm");
  const reports: Record<string, object> = {};
  for (const platform of platforms) {
    progress(`building for ${platform}`);
    const built = await buildPackages(dir, platform, {
      commit: readHeadCommit(),
      timestamp,
      formats,
    });
    const { executable, tarball, debian, rpm } = built;
    const runs = platform === hostPlatform();
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
    };
  }
  return { ok: true, version, platforms: reports };
});
