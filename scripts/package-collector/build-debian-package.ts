import { execFileSync } from "node:child_process";
import { chmod, copyFile, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const packaging = fileURLToPath(new URL("../../packaging/", import.meta.url));
const license = fileURLToPath(new URL("../../LICENSE", import.meta.url));
const architectures: Partial<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** The largest sum of the files that a package installs: the goal of docs/performance.md. */
export const installedBytesMax = 120_000_000;

/** A package that was built. */
export interface BuiltPackage {
  path: string;
  /** The sum of the files that it installs. */
  installedBytes: number;
}

/** The contents of the package. */
export interface DebianPackage {
  executable: string;
  completions: Record<"bash" | "zsh" | "fish", string>;
  version: string;
  /** The license texts of what the executable contains. */
  notices: string;
}

/**
 * Builds the Debian package below `dir` with dpkg-deb, every file owned by root. With SOURCE_DATE_EPOCH in the environment the same
 * contents give the same bytes. Throws if the files to install are larger than `installedBytesMax`.
 */
export const buildDebianPackage = async (
  dir: string,
  { executable, completions, version, notices }: DebianPackage,
): Promise<BuiltPackage> => {
  const tree = join(dir, "debian");
  const architecture = architectures[process.arch] ?? process.arch;
  await rm(tree, { recursive: true, force: true });
  const place = async (path: string, content: { from: string } | { text: string }, mode = 0o644) => {
    const target = join(tree, path);
    await mkdir(dirname(target), { recursive: true });
    if ("from" in content) await copyFile(content.from, target);
    else await writeFile(target, content.text);
    await chmod(target, mode);
  };
  await place("usr/bin/svc-collector", { from: executable }, 0o755);
  const unit = join(packaging, "systemd/svc-collector.service");
  await place("usr/lib/systemd/system/svc-collector.service", { from: unit });
  await place("usr/share/bash-completion/completions/svc-collector", { text: completions.bash });
  await place("usr/share/zsh/vendor-completions/_svc-collector", { text: completions.zsh });
  await place("usr/share/fish/vendor_completions.d/svc-collector.fish", { text: completions.fish });
  await place("usr/share/doc/svc-collector/copyright", { from: license });
  await place("usr/share/doc/svc-collector/THIRD-PARTY-NOTICES", { text: notices });
  const installedBytes = await bytesBelow(tree);
  if (installedBytes > installedBytesMax)
    throw new Error(`the package would install ${installedBytes} bytes; at most ${installedBytesMax} are allowed`);
  for (const script of ["postinst", "prerm", "postrm"])
    await place(`DEBIAN/${script}`, { from: join(packaging, "debian", script) }, 0o755);
  await place("DEBIAN/control", {
    text: `Package: svc-collector
Version: ${version.replace("-", "~")}
Architecture: ${architecture}
Section: net
Priority: optional
Installed-Size: ${Math.ceil(installedBytes / 1024)}
Maintainer: svc-collector maintainers <maintainers@example.invalid>
Depends: libc6 (>= 2.28), libstdc++6, libgcc-s1, libatomic1, adduser
Description: telemetry collector
 Receives OTLP, log files and host metrics, keeps them on disk until they are
 acknowledged, and forwards them over mutual TLS. Renews its own certificate.
`,
  });
  // Whatever the umask is.
  for (const entry of await readdir(tree, { recursive: true, withFileTypes: true }))
    if (entry.isDirectory()) await chmod(join(entry.parentPath, entry.name), 0o755);
  await chmod(tree, 0o755);
  const output = join(dir, `svc-collector_${version}_${architecture}.deb`);
  // The lowest level: a tenth larger than with the default one, in a fifth of the time. One thread: how xz splits the data would depend
  // on the machine.
  execFileSync("dpkg-deb", ["--root-owner-group", "-Zxz", "-z1", "--build", tree, output], {
    env: { ...process.env, DPKG_DEB_THREADS_MAX: "1" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  return { path: output, installedBytes };
};

const bytesBelow = async (folder: string): Promise<number> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(file.parentPath, file.name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
};
