import * as v from "valibot";
import { CollectorConfigYaml, otlpGrpcListen, otlpHttpListen } from "./schema.ts";
import {
  type ConfigTextError,
  configErrorsMax,
  type ParsedTree,
  parseTree,
  type TreePath,
  type UnparsedTree,
} from "./tree.ts";

/** The unit of `max_disk_usage_mb`. */
const bytesPerMb = 1_048_576;

/** A collector config with its defaults. Its paths are as written; the loader resolves relative ones. */
export type CollectorConfig = ReturnType<typeof toConfig>;
/** One entry of `sources`. */
export type SourceConfig = CollectorConfig["sources"][number];

/** The result of `parseCollectorConfig`: the config and a function that locates errors in its text, or every error. */
export type ParsedCollectorConfig =
  | { ok: true; config: CollectorConfig; errorAt: ParsedTree["errorAt"] }
  | { ok: false; errors: ConfigTextError[] };

/**
 * Parses and validates a collector config (docs/collector-config.md). Unknown keys, duplicate keys, wrong types and missing required
 * keys are errors with path, line and column of the key, or of the section that lacks it. Messages name keys and expectations, never
 * values. Never throws.
 */
export const parseCollectorConfig = (text: string): ParsedCollectorConfig =>
  validateCollectorConfig(parseTree(text));

/** Validates a config whose text is parsed already: see `parseCollectorConfig`. */
export const validateCollectorConfig = (
  parsed: ParsedTree | UnparsedTree,
): ParsedCollectorConfig => {
  if (!parsed.ok) return parsed;
  const result = v.safeParse(CollectorConfigYaml, parsed.tree);
  if (result.success) return { ok: true, config: toConfig(result.output), errorAt: parsed.errorAt };
  return {
    ok: false,
    errors: result.issues.slice(0, configErrorsMax).map((issue) => textErrorOf(issue, parsed)),
  };
};

/** Returns what is wrong with a tree, by an issue of its schema: the path and what was expected, never the value. */
export const textErrorOf = (
  issue: v.BaseIssue<unknown>,
  { errorAt }: ParsedTree,
): ConfigTextError => {
  const path: TreePath = (issue.path ?? []).map((item) => item.key as string | number);
  if (issue.type === "strict_object" && issue.path?.at(-1)?.origin === "key")
    return issue.expected === "never"
      ? errorAt(path, "is not a known key", "key")
      : { ...errorAt(path.slice(0, -1), "is required", "key"), path: path.join(".") };
  // A check has its own message; a type or choice names what it expects. Valibot's own messages quote the value.
  if (issue.kind === "validation")
    return errorAt(path, issue.message.startsWith("Invalid ") ? "is out of bounds" : issue.message);
  return errorAt(path, `must be ${expectation(issue.expected)}`);
};

const expectation = (expected: string | null): string => {
  if (expected === "Object") return "a mapping";
  if (expected === "Array") return "a list";
  if (expected === "string") return "text";
  return (expected ?? "of another kind").replace(/^\(|\)$/g, "").replaceAll(" | ", " or ");
};

type Wire = v.InferOutput<typeof CollectorConfigYaml>;

type WireListener = NonNullable<Extract<Wire["sources"][number], { type: "otlp" }>["grpc"]>;

const toListener = ({ listen, allowed_hosts: allowedHosts }: WireListener) => ({
  listen,
  allowedHosts,
});

const toSource = (source: Wire["sources"][number]) => {
  if (source.type === "otlp") {
    const { grpc, http } = source;
    const both = {
      grpc: { listen: otlpGrpcListen, allowedHosts: [] },
      http: { listen: otlpHttpListen, allowedHosts: [] },
    };
    const chosen = {
      ...(grpc === undefined ? {} : { grpc: toListener(grpc) }),
      ...(http === undefined ? {} : { http: toListener(http) }),
    };
    return { type: source.type, ...(grpc === undefined && http === undefined ? both : chosen) };
  }
  if (source.type === "file")
    return {
      type: source.type,
      include: source.include,
      exclude: source.exclude,
      startAt: source.start_at,
    };
  return { type: source.type, intervalSeconds: source.interval_seconds };
};

const toConfig = (wire: Wire) => ({
  hostId: wire.host_id,
  runAsRootAcknowledged: wire.run_as_root_acknowledged !== undefined,
  labels: wire.labels,
  log: wire.log,
  sources: wire.sources.map(toSource),
  forwarder: {
    endpoint: wire.forwarder.endpoint,
    mtls: {
      certFile: wire.forwarder.mtls.cert_file,
      keyFile: wire.forwarder.mtls.key_file,
      caFile: wire.forwarder.mtls.ca_file,
      serverName: wire.forwarder.mtls.server_name,
    },
    batch: {
      maxEnvelopes: wire.forwarder.batch.max_envelopes,
      maxBytes: wire.forwarder.batch.max_bytes,
      lingerMs: wire.forwarder.batch.linger_ms,
    },
    maxInFlightFrames: wire.forwarder.max_in_flight_frames,
    compression: wire.forwarder.compression,
  },
  buffer: {
    dir: wire.buffer.dir,
    maxDiskUsageBytes: wire.buffer.max_disk_usage_mb * bytesPerMb,
    maxRecordAgeSeconds: wire.buffer.max_record_age_seconds,
    dropNewestOnFull: wire.buffer.drop_newest_on_full,
    ephemeral: wire.buffer.ephemeral,
    atRiskBytesPercent: wire.buffer.queue_at_risk_bytes_percent,
    atRiskOldestSeconds: wire.buffer.queue_at_risk_oldest_seconds,
  },
  management: {
    coreUrl: wire.management.core_url,
    serverName: wire.management.server_name,
    caFile: wire.management.ca_file,
    heartbeatIntervalSeconds: wire.management.heartbeat_interval_seconds,
    desiredConfigHash: wire.management.desired_config_hash,
    lastKnownGoodConfigHash: wire.management.last_known_good_config_hash,
    applyDesiredConfig: wire.management.apply_desired_config,
    fileRoots: wire.management.file_roots,
    listenHosts: wire.management.listen_hosts,
    remoteDiag: wire.management.remote_diag,
  },
});
