import { chmod, copyFile, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { PackedFile } from "../bundle/pack-tarball.ts";
import { root } from "../repository-files.ts";

/** The largest sum of the files that a package installs: the goal of docs/performance.md. */
export const installedBytesMax = 120_000_000;

/** What the packages of one platform are made from. */
export interface PackageContents {
  executable: string;
  completions: Readonly<Record<"bash" | "zsh" | "fish", string>>;
  /** The license texts of what the executable contains. */
  notices: string;
}

/** Returns the files that every package installs. Distributions differ only in `zshFolder`, where zsh looks for completions. */
export const packagedFiles = (
  { executable, completions, notices }: PackageContents,
  zshFolder: "vendor-completions" | "site-functions",
): PackedFile[] => [
  { name: "usr/bin/svc-collector", executable: true, from: executable },
  {
    name: "usr/lib/svc-collector/configure-host",
    executable: true,
    from: join(root, "packaging/collector/configure-host"),
  },
  {
    name: "usr/lib/systemd/system/svc-collector.service",
    from: join(root, "packaging/systemd/svc-collector.service"),
  },
  { name: "usr/share/bash-completion/completions/svc-collector", text: completions.bash },
  { name: `usr/share/zsh/${zshFolder}/_svc-collector`, text: completions.zsh },
  { name: "usr/share/fish/vendor_completions.d/svc-collector.fish", text: completions.fish },
  { name: "usr/share/doc/svc-collector/copyright", from: join(root, "LICENSE") },
  { name: "usr/share/doc/svc-collector/THIRD-PARTY-NOTICES", text: notices },
];

/** Returns the files of the tar, in whose folder `install.sh` installs them. */
export const tarredFiles = (contents: PackageContents): PackedFile[] => [
  ...packagedFiles(contents, "site-functions"),
  { name: "install.sh", executable: true, from: join(root, "packaging/collector/install.sh") },
];

/** Writes files below `tree`, whatever the umask is; returns the sum of their sizes. Throws if it is larger than `installedBytesMax`. */
export const writeTree = async (tree: string, files: readonly PackedFile[]): Promise<number> => {
  await rm(tree, { recursive: true, force: true });
  for (const file of files) {
    const target = join(tree, file.name);
    await mkdir(dirname(target), { recursive: true });
    if ("from" in file) await copyFile(file.from, target);
    else await writeFile(target, file.text);
    await chmod(target, file.executable ? 0o755 : 0o644);
  }
  let bytes = 0;
  await chmod(tree, 0o755);
  for (const entry of await readdir(tree, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) await chmod(path, 0o755);
    else bytes += (await stat(path)).size;
  }
  if (bytes > installedBytesMax)
    throw new Error(
      `the package would install ${bytes} bytes; at most ${installedBytesMax} are allowed`,
    );
  return bytes;
};
