import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import {
  AggregationTemporality,
  type MetricSchema,
  type NumberDataPointSchema,
} from "#proto/gen/opentelemetry/proto/metrics/v1/metrics_pb.js";
import type {
  CpuTimes,
  DiskCounters,
  FileSystemUsage,
  HostReadings,
  Interface,
} from "./host-metrics-source.ts";

type Metric = MessageInitShape<typeof MetricSchema>;
type DataPoint = MessageInitShape<typeof NumberDataPointSchema>;
type Attributes = Readonly<Record<string, string>>;
/** A value and its attributes. The metric decides whether it is an integer. */
type Point = readonly [value: number, attributes?: Attributes | undefined];

/** The resource that the metrics describe. */
interface HostResource {
  hostname: string;
  collectorVersion: string;
}

/**
 * Encodes the readings as an OTLP `ExportMetricsServiceRequest`, with the names, units and attributes of OpenTelemetry's semantic
 * conventions for system metrics. Counters are cumulative since boot. CPU figures are sums over all CPUs; utilization needs a previous
 * reading.
 */
export const encodeHostMetrics = (
  now: HostReadings,
  before: HostReadings | undefined,
  host: HostResource,
): Uint8Array =>
  toBinary(
    ExportMetricsServiceRequestSchema,
    create(ExportMetricsServiceRequestSchema, {
      resourceMetrics: [
        {
          resource: {
            attributes: attributesOf({ "host.name": host.hostname, "os.type": "linux" }),
          },
          scopeMetrics: [
            {
              scope: { name: "svc-collector.host_metrics", version: host.collectorVersion },
              metrics: metricsOf(now, before),
            },
          ],
        },
      ],
    }),
  );

/** An `amount` is an UpDownCounter. */
type MetricRow = readonly [
  kind: "counter" | "amount" | "gauge",
  name: string,
  unit: string,
  points: readonly Point[],
  number?: "double",
];

const metricsOf = (now: HostReadings, before: HostReadings | undefined): Metric[] => {
  const { cpu, memory, disks, fileSystems, interfaces } = now;
  const memoryStates = memory?.states ?? {};
  const ioSeconds = disks.map((disk): Point => [disk.ioSeconds, { "system.device": disk.device }]);
  const packets = ofInterfaces(interfaces, "packets", "system.device");
  const rows: MetricRow[] = [
    ["counter", "system.cpu.time", "s", byKey(cpu.times, "cpu.mode"), "double"],
    ["gauge", "system.cpu.utilization", "1", before ? cpuUtilization(now, before) : []],
    ["amount", "system.cpu.logical.count", "{cpu}", [[cpu.cpus]]],
    ["amount", "system.memory.usage", "By", byKey(memoryStates, "system.memory.state")],
    ["amount", "system.memory.limit", "By", memory ? [[memory.total]] : []],
    ["gauge", "system.memory.utilization", "1", shares(memoryStates, "system.memory.state")],
    ["counter", "system.disk.io", "By", ofDisks(disks, "bytes")],
    ["counter", "system.disk.operations", "{operation}", ofDisks(disks, "operations")],
    ["counter", "system.disk.merged", "{operation}", ofDisks(disks, "merged")],
    ["counter", "system.disk.operation_time", "s", ofDisks(disks, "seconds"), "double"],
    ["counter", "system.disk.io_time", "s", ioSeconds, "double"],
    ["amount", "system.filesystem.usage", "By", ofFileSystems(fileSystems, byKey)],
    ["gauge", "system.filesystem.utilization", "1", ofFileSystems(fileSystems, shares)],
    ["counter", "system.network.io", "By", ofInterfaces(interfaces, "bytes")],
    ["counter", "system.network.packet.count", "{packet}", packets],
    ["counter", "system.network.packet.dropped", "{packet}", ofInterfaces(interfaces, "dropped")],
    ["counter", "system.network.errors", "{error}", ofInterfaces(interfaces, "errors")],
  ];
  return rows.filter(([, , , points]) => points.length > 0).map((row) => metricOf(row, now));
};

const nanoseconds = (ms: number) => BigInt(Math.round(ms)) * 1_000_000n;

const metricOf = (
  [kind, name, unit, points, number]: MetricRow,
  { at, bootedAt }: HostReadings,
): Metric => {
  const dataPoints = points.map(
    ([value, attributes = {}]): DataPoint => ({
      ...(kind === "counter" ? { startTimeUnixNano: nanoseconds(bootedAt) } : {}),
      timeUnixNano: nanoseconds(at),
      attributes: attributesOf(attributes),
      value:
        kind === "gauge" || number === "double"
          ? { case: "asDouble", value }
          : { case: "asInt", value: BigInt(Math.round(value)) },
    }),
  );
  if (kind === "gauge") return { name, unit, data: { case: "gauge", value: { dataPoints } } };
  const isMonotonic = kind === "counter";
  const aggregationTemporality = AggregationTemporality.CUMULATIVE;
  const value = { dataPoints, isMonotonic, aggregationTemporality };
  return { name, unit, data: { case: "sum", value } };
};

const attributesOf = (attributes: Attributes) =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value: { value: { case: "stringValue" as const, value } },
  }));

const byKey = (values: Readonly<Record<string, number>>, attribute: string): Point[] =>
  Object.entries(values).map(([key, value]) => [value, { [attribute]: key }]);

/** Returns each value as a fraction of their sum. */
const shares = (values: Readonly<Record<string, number>>, attribute: string): Point[] => {
  const total = Object.values(values).reduce((sum, value) => sum + value, 0);
  return total <= 0
    ? []
    : byKey(values, attribute).map(([value, attributes]) => [value / total, attributes]);
};

/** Returns the fractions of the time between two readings; none after a reboot or without elapsed time. */
const cpuUtilization = ({ cpu }: HostReadings, { cpu: before }: HostReadings): Point[] => {
  const modes = Object.keys(cpu.times) as (keyof CpuTimes)[];
  // iowait may decrease (proc(5)).
  const spent = Object.fromEntries(
    modes.map((mode) => [mode, Math.max(0, cpu.times[mode] - before.times[mode])]),
  );
  return cpu.times.idle < before.times.idle ? [] : shares(spent, "cpu.mode");
};

const ofDisks = (disks: readonly DiskCounters[], field: keyof DiskCounters["read"]): Point[] =>
  disks.flatMap((disk) =>
    (["read", "write"] as const).map(
      (direction): Point => [
        disk[direction][field],
        { "system.device": disk.device, "disk.io.direction": direction },
      ],
    ),
  );

const ofInterfaces = (
  interfaces: readonly Interface[],
  field: keyof Interface["receive"],
  nameAttribute = "network.interface.name",
): Point[] =>
  interfaces.flatMap((entry) =>
    (["receive", "transmit"] as const).map(
      (direction): Point => [
        entry[direction][field],
        { [nameAttribute]: entry.name, "network.io.direction": direction },
      ],
    ),
  );

const ofFileSystems = (fileSystems: readonly FileSystemUsage[], points: typeof byKey): Point[] =>
  fileSystems.flatMap(({ device, mountpoint, type, mode, states }) =>
    points(states, "system.filesystem.state").map(
      ([value, state]): Point => [
        value,
        {
          "system.device": device,
          "system.filesystem.mountpoint": mountpoint,
          "system.filesystem.type": type,
          "system.filesystem.mode": mode,
          ...state,
        },
      ],
    ),
  );
