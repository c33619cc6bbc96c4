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
  const total = /^cpu +(.+)$/m.exec(text)?.[1]?.split(" ").map(Number);
  const bootedAt = Number(/^btime (\d+)$/m.exec(text)?.[1]) * 1000;
  if (total === undefined || total.length < 4 || total.some(Number.isNaN) || Number.isNaN(bootedAt))
    return undefined;
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0] =
    total;
  const seconds = (ticks: number) => ticks / ticksPerSecond;
  return {
    times: {
      user: seconds(user),
      nice: seconds(nice),
      system: seconds(system),
      idle: seconds(idle),
      iowait: seconds(iowait),
      interrupt: seconds(irq + softirq),
      steal: seconds(steal),
    },
    cpus: text.match(/^cpu\d+ /gm)?.length ?? 1,
    bootedAt,
  };
};

/** Bytes of memory by state; the states add up to `total`. */
export interface Memory {
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
export interface DiskDirection {
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
export interface InterfaceDirection {
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
export interface Mount {
  device: string;
  mountpoint: string;
  type: string;
  mode: "ro" | "rw";
}

/**
 * Parses `/proc/mounts`: file systems on local block devices, and the root on any device; for each device its shortest mount point.
 * Leaves network file systems out: a call to one blocks while its server is unavailable.
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

/** Decodes a space (`\040`), tab (`\011`), newline (`\012`) and backslash (`\134`). */
const unescapeOctal = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
