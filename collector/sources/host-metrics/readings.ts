import { readdir, readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import {
  type CpuTimes,
  type DiskCounters,
  type Interface,
  type Memory,
  type Mount,
  readDisks,
  readInterfaces,
  readMemory,
  readMounts,
  readStat,
} from "./proc.ts";

/** Bytes of a file system by state, which add up to its size. `reserved` is for root alone. */
export interface FileSystemUsage extends Mount {
  states: Readonly<Record<"used" | "free" | "reserved", number>>;
}

/** The figures of a host at one time, without those that could not be read. */
export interface HostReadings {
  /** Milliseconds since the epoch. */
  at: number;
  bootedAt: number;
  cpu: { times: CpuTimes; cpus: number };
  memory: Memory | undefined;
  disks: readonly DiskCounters[];
  fileSystems: readonly FileSystemUsage[];
  interfaces: readonly Interface[];
}

/** Reads the figures of this host. Rejects without a Linux `/proc`. `root` replaces `/` in tests. */
export const readHost = async (at: number, root = "/"): Promise<HostReadings> => {
  const proc = (name: string) => readFile(join(root, "proc", name), "utf8").catch(() => "");
  const [stat, memory, disks, interfaces, mounts, blocks] = await Promise.all([
    proc("stat"),
    proc("meminfo"),
    proc("diskstats"),
    proc("net/dev"),
    // This process's own view of the mounts.
    proc("self/mounts"),
    readdir(join(root, "sys/block")).catch(() => undefined),
  ]);
  const cpu = readStat(stat);
  if (cpu === undefined) throw new Error("host_metrics needs the /proc of Linux");
  return {
    at,
    bootedAt: cpu.bootedAt,
    cpu,
    memory: readMemory(memory),
    disks: readDisks(disks, (device) => blocks?.includes(device) ?? true),
    fileSystems: (await Promise.all(readMounts(mounts).map(usageOf))).flat(),
    interfaces: readInterfaces(interfaces),
  };
};

const usageOf = async (mount: Mount): Promise<FileSystemUsage[]> => {
  try {
    const { bsize, blocks, bfree, bavail } = await statfs(mount.mountpoint);
    if (blocks === 0) return [];
    const bytes = (count: number) => Math.max(0, count) * bsize;
    return [
      { ...mount, states: { used: bytes(blocks - bfree), free: bytes(bavail), reserved: bytes(bfree - bavail) } },
    ];
  } catch {
    return []; // unmounted meanwhile, or not permitted for this user
  }
};
