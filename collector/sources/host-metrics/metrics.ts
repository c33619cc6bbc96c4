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

const metricsOf = (now: HostReadings, before: HostReadings | undefined): Metric[] => {
  const make = metricsAt(now);
  const { cpu, memory, disks, fileSystems, interfaces } = now;
  const utilization = before === undefined ? [] : cpuUtilization(now, before);
  const metrics = [
    make.counter("system.cpu.time", "s", byKey(cpu.times, "cpu.mode"), "double"),
    make.gauge("system.cpu.utilization", "1", utilization),
    make.amount("system.cpu.logical.count", "{cpu}", [[cpu.cpus]]),
    ...(memory === undefined
      ? []
      : [
          make.amount("system.memory.usage", "By", byKey(memory.states, "system.memory.state")),
          make.amount("system.memory.limit", "By", [[memory.total]]),
          make.gauge(
            "system.memory.utilization",
            "1",
            shares(memory.states, "system.memory.state"),
          ),
        ]),
    make.counter("system.disk.io", "By", ofDisks(disks, "bytes")),
    make.counter("system.disk.operations", "{operation}", ofDisks(disks, "operations")),
    make.counter("system.disk.merged", "{operation}", ofDisks(disks, "merged")),
    make.counter("system.disk.operation_time", "s", ofDisks(disks, "seconds"), "double"),
    make.counter(
      "system.disk.io_time",
      "s",
      disks.map(({ device, ioSeconds }) => [ioSeconds, { "system.device": device }]),
      "double",
    ),
    make.amount("system.filesystem.usage", "By", ofFileSystems(fileSystems, byKey)),
    make.gauge("system.filesystem.utilization", "1", ofFileSystems(fileSystems, shares)),
    make.counter("system.network.io", "By", ofInterfaces(interfaces, "bytes")),
    make.counter(
      "system.network.packet.count",
      "{packet}",
      ofInterfaces(interfaces, "packets", "system.device"),
    ),
    make.counter("system.network.packet.dropped", "{packet}", ofInterfaces(interfaces, "dropped")),
    make.counter("system.network.errors", "{error}", ofInterfaces(interfaces, "errors")),
  ];
  return metrics.filter(
    ({ data }) => (data?.case === "sum" || data?.case === "gauge") && data.value.dataPoints?.length,
  );
};

const metricsAt = ({ at, bootedAt }: HostReadings) => {
  const nanoseconds = (ms: number) => BigInt(Math.round(ms)) * 1_000_000n;
  const points = (list: readonly Point[], kind: "int" | "double"): DataPoint[] =>
    list.map(([value, attributes = {}]) => ({
      timeUnixNano: nanoseconds(at),
      attributes: attributesOf(attributes),
      value:
        kind === "int"
          ? { case: "asInt" as const, value: BigInt(Math.round(value)) }
          : { case: "asDouble" as const, value },
    }));
  const sinceBoot = (dataPoints: DataPoint[]): DataPoint[] =>
    dataPoints.map((point) => ({ startTimeUnixNano: nanoseconds(bootedAt), ...point }));
  const aggregationTemporality = AggregationTemporality.CUMULATIVE;
  return {
    counter: (
      name: string,
      unit: string,
      list: readonly Point[],
      kind: "int" | "double" = "int",
    ): Metric => ({
      name,
      unit,
      data: {
        case: "sum",
        value: {
          dataPoints: sinceBoot(points(list, kind)),
          isMonotonic: true,
          aggregationTemporality,
        },
      },
    }),
    /** An UpDownCounter. */
    amount: (name: string, unit: string, list: readonly Point[]): Metric => ({
      name,
      unit,
      data: {
        case: "sum",
        value: { dataPoints: points(list, "int"), isMonotonic: false, aggregationTemporality },
      },
    }),
    gauge: (name: string, unit: string, list: readonly Point[]): Metric => ({
      name,
      unit,
      data: { case: "gauge", value: { dataPoints: points(list, "double") } },
    }),
  };
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
