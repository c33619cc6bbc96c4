import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { createMounts } from "#collector/files/mounts.ts";
import { measureRecord } from "#collector/queue/envelope.ts";
import type { QueueOptions } from "#collector/queue/queue.ts";
import { systemClock } from "#kit/clock.ts";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { closeAccounts, refusalsOf } from "#tests/collector/support/queue-accounts.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll, testRecord } from "#tests/support/queue.ts";
import type { SourceDependencies } from "../source.ts";
import {
  createHostMetricsSource,
  createReadHost,
  type HostReadings,
} from "./host-metrics-source.ts";
import { encodeHostMetrics } from "./metrics.ts";

let dir: string;
beforeEach(() => {
  dir = newFolder();
});

const readingsAt = (at: number, seconds = 0): HostReadings => ({
  at,
  bootedAt: 1_000,
  cpu: {
    times: {
      user: 10 + seconds * 0.5,
      nice: 0,
      system: 5,
      idle: 100 + seconds * 1.5,
      iowait: 1,
      interrupt: 1,
      steal: 0,
    },
    cpus: 2,
  },
  memory: { total: 1000, states: { used: 500, free: 300, buffers: 100, cached: 100 } },
  disks: [
    {
      device: "vda",
      ioSeconds: 2.5,
      read: { operations: 1, merged: 0, bytes: 4096, seconds: 0.25 },
      write: { operations: 2, merged: 1, bytes: 8192, seconds: 0.5 },
    },
  ],
  fileSystems: [
    {
      device: "/dev/vda",
      mountpoint: "/",
      type: "ext4",
      mode: "rw",
      states: { used: 2 ** 43, free: 2 ** 43, reserved: 0 },
    },
  ],
  interfaces: [
    {
      name: "eth0",
      receive: { bytes: 2 ** 40, packets: 3, errors: 0, dropped: 1 },
      transmit: { bytes: 5, packets: 6, errors: 0, dropped: 0 },
    },
  ],
});

/** Decodes the metrics of a payload, with points as `[attributes, value]`. */
const metricsOf = (payload: Uint8Array) => {
  const [resource] = fromBinary(ExportMetricsServiceRequestSchema, payload).resourceMetrics;
  const metrics = resource?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
  return new Map(
    metrics.map(({ name, unit, data }) => {
      const points = data.case === "sum" || data.case === "gauge" ? data.value.dataPoints : [];
      return [
        name,
        {
          unit,
          kind: data.case === "sum" ? (data.value.isMonotonic ? "counter" : "amount") : data.case,
          startNanos: points[0]?.startTimeUnixNano,
          points: points.map(({ attributes, value }) => [
            Object.fromEntries(attributes.map(({ key, value: held }) => [key, held?.value.value])),
            value.value,
          ]),
        },
      ] as const;
    }),
  );
};

describe("encodeHostMetrics", () => {
  it("uses the metrics, units and attributes of OpenTelemetry's semantic conventions", () => {
    const before = readingsAt(60_000);
    const host = { hostname: "web-1", collectorVersion: "1.0.0" };
    const metrics = metricsOf(encodeHostMetrics(readingsAt(120_000, 60), before, host));
    const points = (name: string) => metrics.get(name)?.points ?? [];
    expect([...metrics].map(([name, { unit, kind }]) => [name, kind, unit])).toEqual([
      ["system.cpu.time", "counter", "s"],
      ["system.cpu.utilization", "gauge", "1"],
      ["system.cpu.logical.count", "amount", "{cpu}"],
      ["system.memory.usage", "amount", "By"],
      ["system.memory.limit", "amount", "By"],
      ["system.memory.utilization", "gauge", "1"],
      ["system.disk.io", "counter", "By"],
      ["system.disk.operations", "counter", "{operation}"],
      ["system.disk.merged", "counter", "{operation}"],
      ["system.disk.operation_time", "counter", "s"],
      ["system.disk.io_time", "counter", "s"],
      ["system.filesystem.usage", "amount", "By"],
      ["system.filesystem.utilization", "gauge", "1"],
      ["system.network.io", "counter", "By"],
      ["system.network.packet.count", "counter", "{packet}"],
      ["system.network.packet.dropped", "counter", "{packet}"],
      ["system.network.errors", "counter", "{error}"],
    ]);
    expect(metrics.get("system.cpu.time")).toMatchObject({ startNanos: 1_000_000_000n });
    expect(points("system.cpu.utilization")).toContainEqual([{ "cpu.mode": "user" }, 0.25]);
    expect(points("system.cpu.utilization")).toContainEqual([{ "cpu.mode": "idle" }, 0.75]);
    expect(points("system.memory.usage")).toContainEqual([{ "system.memory.state": "used" }, 500n]);
    expect(points("system.disk.io")).toContainEqual([
      { "system.device": "vda", "disk.io.direction": "write" },
      8192n,
    ]);
    expect(points("system.filesystem.usage")[0]).toEqual([
      {
        "system.device": "/dev/vda",
        "system.filesystem.mountpoint": "/",
        "system.filesystem.type": "ext4",
        "system.filesystem.mode": "rw",
        "system.filesystem.state": "used",
      },
      2n ** 43n,
    ]);
    expect(points("system.network.io")[0]).toEqual([
      { "network.interface.name": "eth0", "network.io.direction": "receive" },
      2n ** 40n,
    ]);
  });

  it("omits the CPU utilization in the first reading and after a reboot", () => {
    const host = { hostname: "web-1", collectorVersion: "1.0.0" };
    const names = (before: HostReadings | undefined) => [
      ...metricsOf(encodeHostMetrics(readingsAt(1), before, host)).keys(),
    ];
    expect(names(undefined)).not.toContain("system.cpu.utilization");
    expect(names(readingsAt(0, 60))).not.toContain("system.cpu.utilization");
  });
});

/** Creates a source over a queue; by default both work. */
const setUp = (
  options: Partial<QueueOptions> = {},
  over: Partial<SourceDependencies> = {},
  read = async (at: number) => readingsAt(at),
) => {
  const clock = createTestClock();
  const log = createTestLog();
  const queue = openTestQueue(dir, { clock, ...options });
  onTestFinished(() => queue.close());
  const dependencies = { append: queue.append, refused: queue.accounts.refused, clock, log };
  const source = createHostMetricsSource(
    { intervalSeconds: 60 },
    { ...dependencies, ...over },
    read,
  );
  return { clock, log, queue, source };
};

describe("createHostMetricsSource", () => {
  it.runIf(process.platform === "linux")(
    "reads this host: every figure is present, and states add up",
    async () => {
      const host = await createReadHost(createMounts(systemClock))(Date.now());
      const { states, total } = host.memory ?? { states: {}, total: 0 };
      expect(Object.values(states).reduce((sum, value) => sum + value, 0)).toBe(total);
      expect(host.cpu.cpus).toBeGreaterThan(0);
      expect(host.bootedAt).toBeLessThan(Date.now());
      expect(host.fileSystems.length + host.interfaces.length).toBeGreaterThan(0);
    },
  );

  it("leaves out a file system that does not answer, and asks it again once it has", async () => {
    mkdirSync(join(dir, "proc/self"), { recursive: true });
    writeFileSync(join(dir, "proc/stat"), "cpu  1 2 3 4\nbtime 1\n");
    writeFileSync(
      join(dir, "proc/self/mounts"),
      "/dev/b /hung fuseblk rw 0 0\n/dev/a / ext4 rw 0 0\n",
    );
    const clock = createTestClock();
    const table = "1 0 0:1 / / rw - ext4 root\n2 1 0:2 / /hung rw - fuse root\n";
    const { promise: hung, resolve: answer } = Promise.withResolvers<void>();
    const asked: string[] = [];
    const read = createReadHost(
      createMounts(clock, () => table),
      async (path) => {
        asked.push(path);
        if (path === "/hung") await hung;
        return { bsize: 1, blocks: 3, bfree: 2, bavail: 1 };
      },
    );
    const mountpoints = async (reading: Promise<HostReadings>) =>
      (await reading).fileSystems.map(({ mountpoint }) => mountpoint);
    const first = read(0, dir);
    await vi.waitUntil(() => asked.length > 0);
    await clock.advance(2_500);
    expect(await mountpoints(first)).toEqual(["/"]);
    expect(await mountpoints(read(1, dir))).toEqual(["/"]);
    answer();
    await clock.advance(0);
    expect(await mountpoints(read(2, dir))).toEqual(["/hung", "/"]);
    expect(asked).toEqual(["/hung", "/", "/", "/hung", "/"]);
  });

  it("appends one envelope at the start and at every interval, until it is stopped", async () => {
    const { clock, queue, source } = setUp();
    const start = clock.now();
    await source.start();
    for (let minute = 0; minute < 3; minute++) await clock.advance(60_000);
    await source.stop();
    await clock.advance(600_000);
    const records = readAll(queue);
    expect(
      records.map(({ kind, source: name, observedAtMs }) => [kind, name, observedAtMs - start]),
    ).toEqual([
      ["otel_metric", "host_metrics", 0],
      ["otel_metric", "host_metrics", 60_000],
      ["otel_metric", "host_metrics", 120_000],
      ["otel_metric", "host_metrics", 180_000],
    ]);
  });

  it("skips and counts readings while the queue is full, without waiting, and continues when there is room", async () => {
    const filler = testRecord("full", 5_000);
    const { clock, log, queue, source } = setUp({
      maxDiskUsageBytes: measureRecord(filler) + 100,
    });
    await queue.append([filler]);
    await source.start();
    await clock.advance(60_000);
    expect(source.counters?.()).toEqual({ stored: 0, skipped: 2 });
    expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
    await queue.ack(queue.lastSequence);
    await clock.advance(60_000);
    await expect.poll(() => source.counters?.()).toEqual({ stored: 1, skipped: 2 });
    expect(queue.stats().droppedRecordsTotal).toBe(0);
    await source.stop();
    expect(refusalsOf(closeAccounts(queue))).toEqual([[1, "otel_metric", "host_metrics", 2]]);
  });

  it("Q3: starts on a full disk", async () => {
    const append = () =>
      Promise.reject(Object.assign(new Error("database or disk is full"), { errcode: 13 }));
    const { source } = setUp({}, { append });
    await source.start();
    expect(source.counters?.()).toEqual({ stored: 0, skipped: 1 });
    await source.stop();
  });

  it("continues after a failed reading, and does not start if the host cannot be read", async () => {
    let fails = false;
    const { clock, queue, source } = setUp({}, {}, async (at) => {
      if (fails) throw new Error("no /proc");
      return readingsAt(at);
    });
    await source.start();
    fails = true;
    await clock.advance(60_000);
    expect(source.condition?.()).toMatchObject({
      code: "source_failed",
      reason: "host_metrics: no /proc",
    });
    fails = false;
    for (let minute = 0; minute < 2; minute++) await clock.advance(60_000);
    await expect.poll(() => source.condition?.()).toBeUndefined();
    await source.stop();
    expect(readAll(queue)).toHaveLength(3);
    await expect(createReadHost(createMounts(clock))(0, dir)).rejects.toThrow(
      "needs the /proc of Linux",
    );
  });
});
