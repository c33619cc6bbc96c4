import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Reports whether this user may mount a small file system, to fill it. */
export const canMount = (): boolean => {
  const at = mkdtempSync(join(tmpdir(), "small-disk-"));
  const mounted =
    spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", at], { timeout: 60_000 })
      .status === 0;
  if (mounted) execFileSync("umount", [at]);
  rmSync(at, { recursive: true });
  return mounted;
};

/** Reports whether this machine has strace, which makes system calls fail. */
export const hasStrace = (): boolean =>
  spawnSync("strace", ["-V"], { timeout: 60_000 }).status === 0;

/** Makes this process's reads of `path` fail with EIO, from the `from`th on. Returns a function that ends that. */
export const failReads = async (path: string, from = 1): Promise<() => Promise<void>> => {
  const inject = ["-e", "trace=pread64,read", "-e", `inject=pread64,read:error=EIO:when=${from}+`];
  const strace = spawn(
    "strace",
    ["-f", "-o", "/dev/null", "-P", path, ...inject, "-p", `${process.pid}`],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  await once(strace.stderr, "data");
  const ended = once(strace, "exit");
  return async () => {
    strace.kill();
    await ended;
  };
};
