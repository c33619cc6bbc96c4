import { readdir, readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import {
  type CpuTimes,
  type Disk,
  type Interface,
  type Memory,
  type Mount,
  readDisks,
  readInterfaces,
  readMemory,
  readMounts,
  readStat,
} from "./proc.ts";

/** Bytes of a file system by state; they add up to its size. `reserved` is for root alone. */
export interface FileSystemUsage extends Mount {
  states: Readonly<Record<"used" | "free" | "reserved", number>>;
}

/** What was read of a host at one moment. What could not be read is left out. */
export interface Readings {
  /** Milliseconds since the epoch. */
  at: number;
  bootedAt: number;
  cpu: { times: CpuTimes; cpus: number };
  memory: Memory | undefined;
  disks: readonly Disk[];
  fileSystems: readonly FileSystemUsage[];
  interfaces: readonly Interface[];
}

/** Reads the host. Rejects where there is no Linux `/proc`; `root` stands for `/` in tests. */
export const readHost = async (at: number, root = "/"): Promise<Readings> => {
  const proc = (name: string) => readFile(join(root, "proc", name), "utf8").catch(() => "");
  const [stat, memory, disks, interfaces, mounts, blocks] = await Promise.all([
    proc("stat"),
    proc("meminfo"),
    proc("diskstats"),
    proc("net/dev"),
    // Of this process's own view: `mounts` is a link to it.
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
    return []; // unmounted meanwhile, or not for this user
  }
};
