import * as v from "valibot";
import { inCamelCase } from "../values.ts";
import { hostRules } from "./processors.ts";
import { CollectorConfigYaml } from "./schema.ts";
import { otlpGrpcListen, otlpHttpListen, podLogs, syslogListen } from "./sources.ts";
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
/** A rule of `processors`. */
export type ProcessorConfig = CollectorConfig["processors"][number];

/** The result of `parseCollectorConfig`: the config and a function that locates errors in its text, or every error. */
type ParsedCollectorConfig =
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
  const isOfKey = issue.path?.at(-1)?.origin === "key";
  if (issue.type === "strict_object" && isOfKey)
    return issue.expected === "never"
      ? errorAt(path, "is not a known key", "key")
      : { ...errorAt(path.slice(0, -1), "is required", "key"), path: path.join(".") };
  // A check has its own message; a type or choice names what it expects. Valibot's own messages quote the value.
  if (issue.kind === "validation") {
    const message = issue.message.startsWith("Invalid ") ? "is out of bounds" : issue.message;
    return errorAt(path, message, isOfKey ? "key" : "value");
  }
  return errorAt(path, `must be ${expectation(issue.expected)}`);
};

const expectation = (expected: string | null) => {
  if (expected === "Object") return "a mapping";
  if (expected === "Array") return "a list";
  if (expected === "string") return "text";
  return (expected ?? "of another kind").replace(/^\(|\)$/g, "").replaceAll(" | ", " or ");
};

type Wire = v.InferOutput<typeof CollectorConfigYaml>;

type WithoutRules<Source> = Source extends unknown ? Omit<Source, "processors"> : never;
type SourceWire = WithoutRules<Wire["sources"][number]>;

const toSyslog = ({ tcp, ...source }: Extract<SourceWire, { type: "syslog" }>) => {
  const isUnnamed = tcp === undefined && source.udp === undefined && source.unix === undefined;
  const { listen, tls } = isUnnamed ? { listen: syslogListen } : (tcp ?? {});
  return {
    ...source,
    ...(listen !== undefined && { tcp: { listen, ...(tls && { tls: inCamelCase(tls) }) } }),
  };
};

const toSource = (source: SourceWire) => {
  if (source.type === "host_metrics" || source.type === "journald") return inCamelCase(source);
  if (source.type === "file") {
    const { multiline, include = podLogs.include, exclude, ...rest } = source;
    return {
      ...inCamelCase(rest),
      include,
      exclude: rest.preset === undefined ? exclude : [...exclude, podLogs.own],
      ...(multiline && { multiline: inCamelCase(multiline) }),
    };
  }
  if (source.type === "syslog") return toSyslog(source);
  const { type, grpc, http } = source;
  if (grpc === undefined && http === undefined)
    return {
      type,
      grpc: { listen: otlpGrpcListen, allowedHosts: [] },
      http: { listen: otlpHttpListen, allowedHosts: [] },
    };
  return {
    type,
    ...(grpc === undefined ? {} : { grpc: inCamelCase(grpc) }),
    ...(http === undefined ? {} : { http: inCamelCase(http) }),
  };
};

type Rule = Wire["processors"][number];

const toRule = ({ drop, keep, ...rest }: Rule) => ({
  ...rest,
  ...(drop && { drop: inCamelCase(drop) }),
  ...(keep && { keep: inCamelCase(keep) }),
});

const toConfig = ({
  log,
  labels,
  sources,
  forwarder,
  buffer,
  proxy,
  management,
  ...wire
}: Wire) => {
  const {
    max_disk_usage_mb: diskUsageMb,
    queue_at_risk_bytes_percent: atRiskBytesPercent,
    queue_at_risk_oldest_seconds: atRiskOldestSeconds,
    ...queue
  } = buffer;
  return {
    hostId: wire.host_id,
    runAsRootAcknowledged: wire.run_as_root_acknowledged !== undefined,
    labels,
    log,
    sources: sources.map(({ processors: own, ...source }) => ({
      ...toSource(source),
      ...(own && { processors: own.map(toRule) }),
    })),
    processors: hostRules(wire).map(toRule),
    /** Those of the host: all, unless the file says which. */
    localProcessors: (wire.local_processors ?? wire.processors).map(toRule),
    forwarder: {
      ...inCamelCase(forwarder),
      mtls: inCamelCase(forwarder.mtls),
      batch: inCamelCase(forwarder.batch),
    },
    buffer: {
      ...inCamelCase(queue),
      maxDiskUsageBytes: diskUsageMb * bytesPerMb,
      atRiskBytesPercent,
      atRiskOldestSeconds,
    },
    proxy: typeof proxy === "object" ? inCamelCase(proxy) : proxy,
    management: inCamelCase(management),
  };
};
