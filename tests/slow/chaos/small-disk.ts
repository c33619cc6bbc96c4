import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A file system in memory, which can be full. */
export type SmallDisk = Awaited<ReturnType<typeof mountSmallDisk>>;

const size = "1g";

/** Mounts one. Throws where this process may not mount, as it must be root. */
export const mountSmallDisk = async () => {
  const dir = await mkdtemp(join(tmpdir(), "svc-disk-"));
  const mount = (...args: string[]) =>
    void execFileSync("mount", [...args, dir], { stdio: ["ignore", "ignore", "pipe"] });
  const usedKib = () =>
    execFileSync("df", ["--output=used", "-k", dir], { encoding: "utf8" }).trim().split(/\s+/)[1];
  try {
    mount("-t", "tmpfs", "-o", `size=${size}`, "tmpfs");
  } catch (cause) {
    await rm(dir, { recursive: true });
    throw new Error("a disk that can be full is a tmpfs, which only root may mount", { cause });
  }
  return {
    dir,
    /** Shrinks it to what it holds: the next block that is written fails with ENOSPC. */
    fill: () => mount("-o", `remount,size=${usedKib()}k`),
    free: () => mount("-o", `remount,size=${size}`),
    async remove() {
      execFileSync("umount", ["-l", dir]);
      await rm(dir, { recursive: true });
    },
  };
};
