import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runToEnd } from "#scripts/images/run-to-end.ts";
import { endChild } from "#scripts/lab/processes.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";

const standIn = fileURLToPath(new URL("./stand-in-systemctl.sh", import.meta.url));
const systemPath = "/usr/sbin:/usr/bin:/sbin:/bin";

/** A root of its own for packages: a copy-on-write copy of this machine's file system, where a stand-in for systemd runs the unit. */
export interface PackageRoot {
  /** A folder of this machine that the root has as /srv. */
  shared: string;
  /** Runs a shell script as root there; returns what it prints. Throws `CommandError` unless it ends with 0. */
  run(script: string, ...args: string[]): Promise<string>;
  /** Stops the unit's program and removes the root. */
  close(): Promise<void>;
}

/** Returns why a `PackageRoot` cannot be opened here, or null. */
export const whyNoRoot = (): string | null => {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs Linux and root";
  const probe = spawnSync("unshare", ["--mount", "true"], { timeout: 10_000 });
  return probe.status === 0 ? null : "needs unshare and the right to mount";
};

/** Mounted in a namespace that ends with this shell. The file systems of the machine below `/` are not in the copy. */
const mount = `set -eu
mount -t tmpfs tmpfs "$1/mount"; mkdir "$1/mount/upper" "$1/mount/work" "$1/mount/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/mount/upper,workdir=$1/mount/work" "$1/mount/root"
cd "$1/mount/root"
mount -t tmpfs tmpfs run; mount -t proc proc proc; mount --rbind /dev dev; mount --bind "$1/shared" srv
mkdir -p run/systemd/system run/stand-in
rm -f usr/sbin/policy-rc.d
cp "$1/systemctl" usr/bin/systemctl
echo ready
exec sleep infinity`;

/** Opens a root. */
export const openPackageRoot = async (): Promise<PackageRoot> => {
  const { path: dir, remove } = await openTemporaryFolder("package-root");
  const shared = join(dir, "shared");
  await mkdir(shared, { mode: 0o755 });
  await mkdir(join(dir, "mount"));
  await copyFile(standIn, join(dir, "systemctl"));
  const holder = spawn(
    "unshare",
    ["--mount", "--propagation", "private", "sh", "-c", mount, "sh", dir],
    {
      env: { PATH: systemPath },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  await readiness(holder);
  const run = (script: string, ...args: string[]) => {
    const enter = [
      "--target",
      String(holder.pid),
      "--mount",
      "chroot",
      join(dir, "mount/root"),
      "sh",
      "-euc",
      script,
    ];
    return runToEnd("nsenter", [...enter, "sh", ...args], {
      env: { PATH: systemPath },
      timeoutMs: 120_000,
    });
  };
  const close = async () => {
    await run("systemctl stop").catch(() => undefined);
    await endChild(holder, "SIGKILL");
    await remove();
  };
  return { shared, run, close };
};

const readiness = async (holder: ChildProcess): Promise<void> => {
  let stderr = "";
  holder.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk.toString("utf8");
  });
  const failed = once(holder, "exit").then(() => {
    throw new Error(`the root cannot be mounted: ${stderr.trim()}`);
  });
  const ready = holder.stdout ? once(holder.stdout, "data") : failed;
  await Promise.race([ready, failed]);
  failed.catch(() => undefined);
};
