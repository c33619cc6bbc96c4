import type { StatsFs } from "node:fs";
import { readdir, readFile, statfs } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { type Mounts, unescapeOctal } from "#collector/files/mounts.ts";
import { QueueClosedError, QueueFullError } from "#collector/queue/errors.ts";
import { createReportedFault } from "#collector/queue/reported-fault.ts";
import { version } from "#collector/version.ts";
import type { Source, SourceDependencies } from "../source.ts";

/** The config of a `host_metrics` source (docs/collector-config.md). */
interface HostMetricsSourceConfig {
  /** `host_metrics` unless given. */
  readonly name?: string;
  readonly intervalSeconds: number;
}

/** Bytes of a file system by state, which add up to its size. Only root may use `reserved`. */
export interface FileSystemUsage extends Mount {
  states: Readonly<Record<"used" | "free" | "reserved", number>>;
}

/** The figures of a host at one time; those that could not be read are missing. */
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

/** The size of a file system, as `statfs` returns it. */
type StatFileSystem = (
  path: string,
) => Promise<Pick<StatsFs, "bsize" | "blocks" | "bfree" | "bavail">>;

/** Already aborted, so that an append never waits for room. */
const withoutWaiting = AbortSignal.abort("the next reading replaces this one");

/**
 * Reads CPU, memory, disks, file systems and network of this host at the start and every `intervalSeconds`, and appends each reading as
 * one `otel_metric` envelope. Skips and counts a reading while the queue is full: the next one has the same counters, and lossless sources
 * wait for the room.
 */
export const createHostMetricsSource = (
  config: HostMetricsSourceConfig,
  { append, refused, clock, log }: SourceDependencies,
  read: (at: number) => Promise<HostReadings>,
): Source => {
  const { name = "host_metrics", intervalSeconds } = config;
  const host = { hostname: hostname(), collectorVersion: version };
  const stopping = new AbortController();
  let running: Promise<void> = Promise.resolve();
  let before: HostReadings | undefined;
  let stored = 0;
  let skipped = 0;
  let full = false;
  const fault = createReportedFault("source_failed", clock, `${name}: `);

  const store = async (readings: HostReadings): Promise<void> => {
    // Imported on demand: the library's descriptors would take a seventh of the start of a collector without this source.
    const { encodeHostMetrics } = await import("./metrics.ts");
    const payload = encodeHostMetrics(readings, before, host);
    before = readings;
    const record = {
      kind: "otel_metric",
      observedAtMs: readings.at,
      source: name,
      attributes: {},
      payload,
    };
    try {
      if ((await append([record], { signal: withoutWaiting })) === "stored") stored += 1;
      if (full) log.info({ source: name, skipped }, "host metrics are stored again");
      full = false;
    } catch (error) {
      if (error instanceof QueueClosedError) return;
      skipped += 1;
      refused("queue_full", { kind: record.kind, source: name, records: 1 });
      if (!(error instanceof QueueFullError))
        return log.error({ err: error, source: name }, "host metrics could not be stored");
      if (!full) log.warn({ source: name }, "the queue is full; host metrics are skipped");
      full = true;
    }
  };

  const run = async (): Promise<void> => {
    const { signal } = stopping;
    for (;;) {
      await clock.sleep(intervalSeconds * 1000, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await store(await read(clock.now()));
        fault.succeeded();
      } catch (error) {
        fault.failed(error);
        log.error({ err: error, source: name }, "host metrics could not be read");
      }
    }
  };

  return {
    name,
    start: async () => {
      await store(await read(clock.now()));
      running = run();
    },
    stop: async () => {
      stopping.abort(new Error("the source is stopping"));
      await running;
    },
    condition: fault.condition,
    counters: () => ({ stored, skipped }),
  };
};

/**
 * Creates a function that reads this host's figures; `root` replaces `/` in tests. It rejects without Linux's `/proc`. It omits a file system
 * that does not answer, such as that of a hanging FUSE program.
 */
export const createReadHost = (
  mounts: Mounts,
  statFileSystem: StatFileSystem = statfs,
): ((at: number, root?: string) => Promise<HostReadings>) => {
  const usageOf = async (mount: Mount): Promise<FileSystemUsage[]> => {
    const { mountpoint } = mount;
    try {
      const { bsize, blocks, bfree, bavail } = await mounts
        .of(mountpoint)
        .call(() => statFileSystem(mountpoint));
      if (blocks === 0) return [];
      const bytes = (count: number) => Math.max(0, count) * bsize;
      const states = {
        used: bytes(blocks - bfree),
        free: bytes(bavail),
        reserved: bytes(bfree - bavail),
      };
      return [{ ...mount, states }];
    } catch {
      return []; // does not answer, which is a condition of the host, or unmounted meanwhile, or not permitted for this user
    }
  };

  return async (at, root = "/") => {
    const proc = (name: string) => readFile(join(root, "proc", name), "utf8").catch(() => "");
    const [stat, memory, disks, interfaces, mounted, blocks] = await Promise.all([
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
    for (const mount of readMounts(mounted)) fileSystems.push(...(await usageOf(mount)));
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

/* Pure parsers of Linux's /proc (proc(5)). They ignore unknown lines and fields, since kernels add some. */

/** Seconds since boot that all CPUs together spent in each mode. */
export type CpuTimes = Readonly<
  Record<"user" | "nice" | "system" | "idle" | "iowait" | "interrupt" | "steal", number>
>;

/** USER_HZ: Linux reports times in hundredths of a second, whatever its internal unit. */
const ticksPerSecond = 100;

/** Parses `/proc/stat`: CPU times, the number of CPUs, and the boot time in milliseconds since the epoch. */
export const readStat = (
  text: string,
): { times: CpuTimes; cpus: number; bootedAt: number } | undefined => {
  const total = /^cpu +(.+)$/m
    .exec(text)?.[1]
    ?.split(" ")
    .map((ticks) => Number(ticks) / ticksPerSecond);
  const bootedAt = Number(/^btime (\d+)$/m.exec(text)?.[1]) * 1000;
  if (total === undefined || total.length < 4 || total.some(Number.isNaN) || Number.isNaN(bootedAt))
    return undefined;
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0] =
    total;
  return {
    times: { user, nice, system, idle, iowait, interrupt: irq + softirq, steal },
    cpus: text.match(/^cpu\d+ /gm)?.length ?? 1,
    bootedAt,
  };
};

/** Bytes of memory by state; the states add up to `total`. */
interface Memory {
  total: number;
  states: Readonly<Record<"used" | "free" | "buffers" | "cached", number>>;
}

/** Parses `/proc/meminfo`. */
export const readMemory = (text: string): Memory | undefined => {
  const bytes = (name: string) =>
    Number(new RegExp(`^${name}: +(\\d+) kB$`, "m").exec(text)?.[1] ?? 0) * 1024;
  const total = bytes("MemTotal");
  const free = bytes("MemFree");
  const buffers = bytes("Buffers");
  if (total === 0) return undefined;
  const cached = bytes("Cached") + bytes("SReclaimable");
  return {
    total,
    states: { used: Math.max(0, total - free - buffers - cached), free, buffers, cached },
  };
};

/** Counters of a block device since boot; times in seconds. */
export interface DiskCounters {
  device: string;
  ioSeconds: number;
  read: DiskDirection;
  write: DiskDirection;
}

/** One direction of `DiskCounters`. */
interface DiskDirection {
  operations: number;
  merged: number;
  bytes: number;
  seconds: number;
}

/** The kernel's unit, whatever the sector size of the device. */
const sectorBytes = 512;

/** Parses `/proc/diskstats` for the devices that were used; `isWhole` is true for disks and false for partitions. */
export const readDisks = (text: string, isWhole: (device: string) => boolean): DiskCounters[] =>
  text.split("\n").flatMap((line) => {
    const [, , device = "", ...fields] = line.trim().split(/ +/);
    const [reads = 0, readsMerged = 0, sectorsRead = 0, readMs = 0, writes = 0, ...rest] =
      fields.map(Number);
    const [writesMerged = 0, sectorsWritten = 0, writeMs = 0, , ioMs = 0] = rest;
    if (fields.length < 11 || reads + writes === 0 || !isWhole(device)) return [];
    const direction = (operations: number, merged: number, sectors: number, ms: number) => ({
      operations,
      merged,
      bytes: sectors * sectorBytes,
      seconds: ms / 1000,
    });
    return [
      {
        device,
        ioSeconds: ioMs / 1000,
        read: direction(reads, readsMerged, sectorsRead, readMs),
        write: direction(writes, writesMerged, sectorsWritten, writeMs),
      },
    ];
  });

/** Counters of a network interface since it came up. */
export interface Interface {
  name: string;
  receive: InterfaceDirection;
  transmit: InterfaceDirection;
}

/** One direction of an `Interface`. */
interface InterfaceDirection {
  bytes: number;
  packets: number;
  errors: number;
  dropped: number;
}

/** Parses `/proc/net/dev` for the interfaces that carried a packet. */
export const readInterfaces = (text: string): Interface[] =>
  text.split("\n").flatMap((line) => {
    const [, name, counters] = /^ *(?! )([^:|]+):([\d ]+)$/.exec(line) ?? [];
    const fields = counters?.trim().split(/ +/).map(Number) ?? [];
    if (name === undefined || fields.length < 16) return [];
    const direction = (from: number) => {
      const [bytes = 0, packets = 0, errors = 0, dropped = 0] = fields.slice(from);
      return { bytes, packets, errors, dropped };
    };
    const receive = direction(0);
    const transmit = direction(8);
    return receive.packets + transmit.packets === 0 ? [] : [{ name, receive, transmit }];
  });

/** A mounted file system. */
interface Mount {
  device: string;
  mountpoint: string;
  type: string;
  mode: "ro" | "rw";
}

/**
 * Parses `/proc/mounts`: file systems on local block devices, and the root on any device; for each device its shortest mount point. Omits
 * network file systems: a call to one blocks while its server is unavailable.
 */
export const readMounts = (text: string): Mount[] => {
  const mounts = new Map<string, Mount>();
  for (const line of text.split("\n")) {
    const [device = "", mountpoint = "", type = "", options = ""] = line
      .split(" ")
      .map(unescapeOctal);
    if (!device.startsWith("/dev/") && mountpoint !== "/" && type !== "zfs") continue;
    const mode = options.split(",").includes("ro") ? "ro" : "rw";
    const known = mounts.get(device);
    if (known === undefined || mountpoint.length < known.mountpoint.length)
      mounts.set(device, { device, mountpoint, type, mode });
  }
  return [...mounts.values()];
};
