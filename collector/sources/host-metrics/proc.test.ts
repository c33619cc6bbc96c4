import { expect, it } from "vitest";
import {
  readDisks,
  readInterfaces,
  readMemory,
  readMounts,
  readStat,
} from "./host-metrics-source.ts";

it("parse CPU times of all CPUs, with irq and softirq added up, and the boot time", () => {
  const text =
    "cpu  100 20 300 4000 50 6 7 8 9 10\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5 0\nbtime 1700000000\n";
  expect(readStat(text)).toEqual({
    times: { user: 1, nice: 0.2, system: 3, idle: 40, iowait: 0.5, interrupt: 0.13, steal: 0.08 },
    cpus: 2,
    bootedAt: 1_700_000_000_000,
  });
  expect(readStat("")).toBeUndefined();
  expect(readStat("cpu  a b c d\nbtime 1\n")).toBeUndefined();
});

it("parse memory by state, adding up to the total", () => {
  const text =
    "MemTotal:       1000 kB\nMemFree:  200 kB\nMemAvailable: 1 kB\nBuffers: 50 kB\nCached: 300 kB\nSwapCached: 9 kB\nSReclaimable: 40 kB\n";
  expect(readMemory(text)).toEqual({
    total: 1_024_000,
    states: { used: 410 * 1024, free: 200 * 1024, buffers: 50 * 1024, cached: 340 * 1024 },
  });
  expect(readMemory("nothing")).toBeUndefined();
});

it("parse used disks without partitions, from the 11 fields of old and the 17 of new kernels", () => {
  const text = `   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 10 1 200 30 40 5 600 70 0 80 90 1 2 3 4 5 6
 254       1 vda1 10 1 200 30 40 5 600 70 0 80 90
   8       0 sda 1 0 2 3 0 0 0 0 0 4 5
`;
  expect(readDisks(text, (device) => !/\d$/.test(device))).toEqual([
    {
      device: "vda",
      ioSeconds: 0.08,
      read: { operations: 10, merged: 1, bytes: 102_400, seconds: 0.03 },
      write: { operations: 40, merged: 5, bytes: 307_200, seconds: 0.07 },
    },
    expect.objectContaining({ device: "sda", ioSeconds: 0.004 }),
  ]);
});

it("parse interfaces that carried packets, also without a space after the colon", () => {
  const text = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
  eth0:1234567890123 20 3 4 0 0 0 0 55 66 7 8 0 0 0 0
  ifb0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
eth0.1: 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0
`;
  expect(readInterfaces(text)).toEqual([
    {
      name: "eth0",
      receive: { bytes: 1_234_567_890_123, packets: 20, errors: 3, dropped: 4 },
      transmit: { bytes: 55, packets: 66, errors: 7, dropped: 8 },
    },
    expect.objectContaining({ name: "eth0.1" }),
  ]);
});

it("parse each local file system once, always the root, and never network or kernel ones", () => {
  const text = `proc /proc proc rw 0 0
overlay / overlay rw,relatime 0 0
/dev/vdb /srv/a\\040b xfs ro,noatime 0 0
/dev/vdb /srv/a\\040b/inner/bind xfs rw 0 0
server:/export /mnt/nfs nfs4 rw 0 0
tmpfs /run tmpfs rw 0 0
pool/data /tank zfs rw 0 0
`;
  expect(readMounts(text)).toEqual([
    { device: "overlay", mountpoint: "/", type: "overlay", mode: "rw" },
    { device: "/dev/vdb", mountpoint: "/srv/a b", type: "xfs", mode: "ro" },
    { device: "pool/data", mountpoint: "/tank", type: "zfs", mode: "rw" },
  ]);
});
