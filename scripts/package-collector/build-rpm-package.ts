import { execFileSync } from "node:child_process";
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import packageJson from "#package.json" with { type: "json" };
import { packagePlatforms } from "../platforms/package-platforms.ts";
import { type BuiltPackage, type PackageBuild, tildeVersion } from "./build-debian-package.ts";
import { packagedFiles, writeTree } from "./package-files.ts";

const spec = fileURLToPath(new URL("../../packaging/rpm/svc-collector.spec", import.meta.url));

/**
 * Builds the RPM package below `dir` with rpmbuild, which needs no program of the package's platform. With SOURCE_DATE_EPOCH in the
 * environment the same contents give the same bytes. Throws if the files to install are larger than `installedBytesMax`.
 */
export const buildRpmPackage = async (dir: string, build: PackageBuild): Promise<BuiltPackage> => {
  const work = join(dir, "rpm");
  const { rpm: architecture } = packagePlatforms[build.platform];
  const version = tildeVersion(build.version);
  const files = packagedFiles(build, "site-functions");
  await rm(work, { recursive: true, force: true });
  const installedBytes = await writeTree(join(work, "tree"), files);
  await mkdir(join(work, "top"));
  const own = ["usr/lib/svc-collector", "usr/share/doc/svc-collector"].map(
    (folder) => `%dir /${folder}`,
  );
  const listed = ["%defattr(-, root, root, -)", ...own, ...files.map(({ name }) => `/${name}`)];
  await writeFile(join(work, "files"), `${listed.join("\n")}\n`);
  const macros = {
    _topdir: join(work, "top"),
    package_tree: join(work, "tree"),
    package_files: join(work, "files"),
    package_version: version,
    package_maintainer: packageJson.author,
    // Nothing of the machine and the time of the build.
    _buildhost: "localhost",
    use_source_date_epoch_as_buildtime: "1",
    clamp_mtime_to_source_date_epoch: "1",
    // As for the Debian package: the lowest level, one thread.
    _binary_payload: "w1.xzdio",
  };
  const defines = Object.entries(macros).flatMap(([name, value]) => [
    "--define",
    `${name} ${value}`,
  ]);
  execFileSync(
    "rpmbuild",
    ["-bb", "--quiet", "--nodeps", `--target=${architecture}-linux`, ...defines, spec],
    {
      env: { ...process.env, HOME: work },
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  const name = `svc-collector-${version}-1.${architecture}.rpm`;
  const output = join(dir, `svc-collector-${build.version}-1.${architecture}.rpm`);
  await copyFile(join(work, "top/RPMS", architecture, name), output);
  return { path: output, installedBytes };
};
