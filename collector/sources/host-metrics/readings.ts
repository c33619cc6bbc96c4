import type { StatsFs } from "node:fs";
import { readdir, readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../kit/clock.ts";
import type { Log } from "../../../kit/log.ts";
import { TimedOut, withTimeout } from "../../../kit/with-timeout.ts";
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
/** How long a file system may take to answer, and how many may be without an answer: each keeps one of Node's four threads. */
const answerMs = 1_000;
const unansweredMax = 2;

/** The size of a file system, as `statfs` returns it. */
type StatFileSystem = (
  path: string,
) => Promise<Pick<StatsFs, "bsize" | "blocks" | "bfree" | "bavail">>;

/**
 * Creates the reader of this host's figures. Leaves out a file system that does not answer, as that of a FUSE program that hangs, and does not
 * ask it again until it has answered: the source could neither start nor stop.
 */
export const createReadHost = (
  { clock, log }: { clock: Pick<Clock, "sleep">; log: Log },
  statFileSystem: StatFileSystem = statfs,
): ((at: number, root?: string) => Promise<HostReadings>) => {
  const unanswered = new Set<string>();

  const usageOf = async (mount: Mount): Promise<FileSystemUsage[]> => {
    const { mountpoint } = mount;
    if (unanswered.has(mountpoint) || unanswered.size >= unansweredMax) return [];
    unanswered.add(mountpoint);
    try {
      const answer = statFileSystem(mountpoint).finally(() => unanswered.delete(mountpoint));
      const { bsize, blocks, bfree, bavail } = await withTimeout(answerMs, clock, answer);
      if (blocks === 0) return [];
      const bytes = (count: number) => Math.max(0, count) * bsize;
      return [
        {
          ...mount,
          states: {
            used: bytes(blocks - bfree),
            free: bytes(bavail),
            reserved: bytes(bfree - bavail),
          },
        },
      ];
    } catch (error) {
      if (error instanceof TimedOut)
        log.warn({ mountpoint }, "a file system does not answer; its figures are left out");
      return []; // or unmounted meanwhile, or not permitted for this user
    }
  };

  return async (at, root = "/") => {
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
    const fileSystems: FileSystemUsage[] = [];
    for (const mount of readMounts(mounts)) fileSystems.push(...(await usageOf(mount)));
    return {
      at,
      bootedAt: cpu.bootedAt,
      cpu,
      memory: readMemory(memory),
      disks: readDisks(disks, (device) => blocks?.includes(device) ?? true),
      fileSystems,
      interfaces: readInterfaces(interfaces),
    };
  };
};
