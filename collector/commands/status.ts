import { describeCondition } from "#proto/management/heartbeat.ts";
import { defaultConfigPath } from "../config/load-config.ts";
import { describeWarning } from "../sources/source.ts";
import { type CollectorStatus, fetchStatus, NoStatusError } from "../status/fetch-status.ts";
import { commandFailure, defineCommand, exitCode, loadParsedConfig } from "./command.ts";

type Row = [name: string, ...lines: string[]];

/** Formats the status for people, as aligned lines. Every line ends with a newline. */
export const describeStatus = (status: CollectorStatus): string => {
  const now = Date.parse(status.now);
  const ago = (time: string) => `${duration(now - Date.parse(time))} ago`;
  const at = (time: string) => `${time.slice(0, 19)}Z (${relative(Date.parse(time) - now)})`;
  const { config, queue, forwarder, routes, heartbeat, certificate, renewal } = status;
  const { next_attempt_at: renewalAt } = renewal;
  const rows: Row[] = [
    [
      "collector",
      `${status.version}, pid ${status.pid}, up ${duration(now - Date.parse(status.started_at))}`,
    ],
    ["identity", status.identity],
    ["labels", describeLabels(status.labels)],
    [
      "config",
      config.valid
        ? `valid, ${shortHash(config.running_config_hash)}`
        : "the config on disk is invalid; the previous one stays in effect",
      ...config.errors,
      ...lineIf(
        ![null, config.running_config_hash].includes(config.desired_config_hash),
        `desired config: ${shortHash(config.desired_config_hash)}`,
      ),
    ],
    [
      "queue",
      describeQueue(queue),
      ...status.conditions.map((condition) => `at risk: ${describeCondition(condition)}`),
      ...describeLosses(status),
    ],
    ["forwarding", ...describeForwarding(forwarder, ago)],
    ["routes", ...describeWays(routes)],
    ["trust", ...describeTrust(status)],
    ["heartbeats", ...describeHeartbeats(heartbeat, ago)],
    [
      "certificate",
      `valid until ${at(certificate.not_after)}, serial ${certificate.serial_number}`,
    ],
    [
      "renewal",
      `${renewal.status.replaceAll("_", " ")}${renewalAt === null ? "" : `, next at ${at(renewalAt)}`}`,
      ...optional(renewal.last_error),
    ],
    [
      "sources",
      ...(status.sources.length === 0 ? ["none"] : status.sources.flatMap(describeSource)),
    ],
  ];
  return align(rows);
};

const align = (rows: readonly Row[]) => {
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  return rows
    .flatMap(([name, ...lines]) =>
      lines.map((line, index) => `${(index === 0 ? name : "").padEnd(width)}${line}\n`),
    )
    .join("");
};

const describeHeartbeats = (
  heartbeat: CollectorStatus["heartbeat"],
  ago: (time: string) => string,
): string[] => {
  if (heartbeat === null) return ["off: the config has no management.core_url"];
  const { last_success_at: at, last_error: error } = heartbeat;
  return [at === null ? "none accepted yet" : `last accepted ${ago(at)}`, ...optional(error)];
};

const describeForwarding = (
  forwarder: CollectorStatus["forwarder"],
  ago: (time: string) => string,
): string[] => {
  const { endpoint, last_ack_at: at, last_error: error } = forwarder;
  const lastAck = at === null ? "no ack yet" : `last ack ${ago(at)}`;
  return [`${describeConnection(forwarder)} ${endpoint}, ${lastAck}`, ...optional(error)];
};

const describeWays = ({ ingest, management, note }: CollectorStatus["routes"]): string[] => [
  `ingest ${ingest}`,
  ...lineIf(management !== null, `management ${management}`),
  ...optional(note),
];

const describeTrust = ({ trust }: Pick<CollectorStatus, "trust">): string[] =>
  Object.entries(trust).flatMap(([channel, found]) => {
    if (found === null) return [`${channel} by the authorities of the system`];
    const { bundle, settled, fault, authorities } = found;
    const source = bundle === null ? "authorities without a number" : `CA bundle ${bundle}`;
    const bundled = settled ? source : `${source}, and what counted before it`;
    return [
      `${channel} by ${settled === null ? "ca_file" : bundled}`,
      ...authorities.map(({ name, not_after: end }) => `  ${name}, until ${end.slice(0, 19)}Z`),
      ...lineIf(fault !== null, `  warning: the CA bundle: ${fault}`),
    ];
  });

/** Describes what the queue and its files have lost, or may lose. */
const describeLosses = ({ queue, quarantine, conditions }: CollectorStatus): string[] => [
  ...lineIf(
    queue.at_risk && conditions.length === 0,
    "at risk: too full, its oldest record is too old, or its files were damaged within a day",
  ),
  ...lineIf(
    queue.forks_total > 0,
    `continued under a new queue id, as a copy of the queue exists: ${queue.forks_total} times`,
  ),
  ...lineIf(
    quarantine.files > 0,
    `quarantined files: ${quarantine.files}, with ${quarantine.records} records; see quarantine-* in the data directory`,
  ),
  ...lineIf(
    queue.file_gaps_total > 0,
    `files and journals rotated away before their end was read: ${queue.file_gaps_total}, ${size(queue.file_gap_bytes_total)} known to be lost`,
  ),
  ...lineIf(
    quarantine.lost_records > 0,
    `lost by damage of the queue's files: ${quarantine.lost_records} records`,
  ),
];

/** Describes the connection. Being held by a budget is not a connection failure. */
const describeConnection = ({
  connected,
  last_error: error,
}: CollectorStatus["forwarder"]): string => {
  if (connected) return "connected to";
  return error?.startsWith("budget_exceeded:") ? "held by its budget at" : "not connected to";
};

const describeLabels = (labels: CollectorStatus["labels"]) =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ") || "none";

const lineIf = (condition: boolean, line: string): string[] => (condition ? [line] : []);
const optional = (text: string | null): string[] => (text === null ? [] : [text]);
const shortHash = (hash: string | null) => hash?.slice(0, 12) ?? "unknown";

const describeQueue = (queue: CollectorStatus["queue"]) =>
  [
    `${queue.records} records`,
    `${size(queue.bytes)} of ${size(queue.max_bytes)}`,
    ...(queue.oldest_record_age_seconds === null
      ? []
      : [`oldest ${duration(queue.oldest_record_age_seconds * 1000)}`]),
    `${queue.dropped_records_total} dropped`,
    `${queue.dead_letters} dead letters`,
  ].join(", ");

const describeSource = ({ name, counters, warnings }: CollectorStatus["sources"][number]) => [
  [
    name,
    ...Object.entries(counters).map(
      ([counter, count]) => `${count} ${counter.replaceAll("_", " ")}`,
    ),
  ].join(", "),
  ...warnings.map((warning) => `  ${warning.level}: ${describeWarning(warning)}`),
];

/** Formats bytes in the largest unit of 1024 that fits, with at most one decimal. */
const size = (bytes: number) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** power).toFixed(1))} ${units[power]}`;
};

/** Formats a duration in its two largest units: `3 d 4 h`, `12 s`. */
const duration = (ms: number) => {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [seconds % 60, "s"],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  if (first === -1) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
};

const relative = (ms: number) => (ms < 0 ? `${duration(-ms)} ago` : `in ${duration(ms)}`);

/**
 * `status`: prints the status of the collector that runs with a config, from the unix socket in its data directory. Exits with 1 and
 * one line if none runs.
 */
export const statusCommand = defineCommand({
  usage: `  --config <path>   the config of the running collector (default ${defaultConfigPath})
  --json            one JSON object on stdout
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    // Only the data directory is needed: the running collector reports the other errors of the file.
    const { buffer } = await loadParsedConfig(flags.config, env);
    try {
      const found = await fetchStatus(buffer.dir);
      return { exitCode: exitCode.done, lines: [], text: describeStatus(found), json: found };
    } catch (error) {
      if (error instanceof NoStatusError)
        throw commandFailure(error.code, error.message, { cause: error });
      throw error;
    }
  },
});
