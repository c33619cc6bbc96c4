import { execFileSync } from "node:child_process";
import { chmod, copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import packageJson from "#package.json" with { type: "json" };
import { type PackagePlatform, packagePlatforms } from "../platforms/package-platforms.ts";
import { type PackageContents, packagedFiles, writeTree } from "./package-files.ts";

const scripts = fileURLToPath(new URL("../../packaging/debian/", import.meta.url));

/** A package that was built. */
export interface BuiltPackage {
  path: string;
  /** The sum of the files that it installs. */
  installedBytes: number;
}

/** What a package is built of, and for what. */
export type PackageBuild = PackageContents & { version: string; platform: PackagePlatform };

/**
 * Builds the Debian package below `dir` with dpkg-deb, every file owned by root. With SOURCE_DATE_EPOCH in the environment the same
 * contents give the same bytes. Throws if the files to install are larger than `installedBytesMax`.
 */
export const buildDebianPackage = async (
  dir: string,
  build: PackageBuild,
): Promise<BuiltPackage> => {
  const tree = join(dir, "debian");
  const { debian: architecture } = packagePlatforms[build.platform];
  const installedBytes = await writeTree(tree, packagedFiles(build, "vendor-completions"));
  await mkdir(join(tree, "DEBIAN"), { mode: 0o755 });
  for (const name of ["preinst", "postinst", "prerm", "postrm"]) {
    await copyFile(join(scripts, name), join(tree, "DEBIAN", name));
    await chmod(join(tree, "DEBIAN", name), 0o755);
  }
  await writeFile(
    join(tree, "DEBIAN/control"),
    `Package: svc-collector
Version: ${tildeVersion(build.version)}
Architecture: ${architecture}
Section: net
Priority: optional
Installed-Size: ${Math.ceil(installedBytes / 1024)}
Maintainer: ${packageJson.author}
Depends: libc6 (>= 2.28), libstdc++6, libgcc-s1, libatomic1, passwd
Description: telemetry collector
 Receives OTLP, log files and host metrics, keeps them on disk until they are
 acknowledged, and forwards them over mutual TLS. Renews its own certificate.
`,
  );
  await chmod(join(tree, "DEBIAN/control"), 0o644);
  await chmod(join(tree, "DEBIAN"), 0o755);
  const output = join(dir, `svc-collector_${build.version}_${architecture}.deb`);
  // The lowest level: a tenth larger than with the default one, in a fifth of the time. One thread: how xz splits the data would depend
  // on the machine.
  execFileSync("dpkg-deb", ["--root-owner-group", "-Zxz", "-z1", "--build", tree, output], {
    env: { ...process.env, DPKG_DEB_THREADS_MAX: "1" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  return { path: output, installedBytes };
};

/** Returns a version in which a pre-release sorts before its release, as dpkg and RPM compare them. */
export const tildeVersion = (version: string): string => version.replace("-", "~");
