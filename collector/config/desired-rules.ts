import { isDeepStrictEqual } from "node:util";
import type { CollectorConfig, SourceConfig } from "#proto/collector-config/parse.ts";
import { hasPlainDirectories, splitHostPort } from "#proto/collector-config/sources.ts";
import { isRecord } from "#proto/values.ts";
import { isOnLoopback } from "../sources/listeners.ts";

/** Every key that a desired config may not change, and how to read its value. */
const fixedKeys: readonly [key: string, value: (config: CollectorConfig) => unknown][] = [
  ["host_id", ({ hostId }) => hostId],
  ["labels", ({ labels }) => labels],
  ["local_processors", ({ localProcessors }) => localProcessors],
  ["run_as_root_acknowledged", ({ runAsRootAcknowledged }) => runAsRootAcknowledged],
  ["forwarder.endpoint", ({ forwarder }) => forwarder.endpoint],
  ["forwarder.mtls", ({ forwarder }) => forwarder.mtls],
  ["proxy", ({ proxy }) => proxy],
  // Without the reporting-only keys, which have no effect.
  [
    "management",
    ({ management: { desiredConfigHash: _, lastKnownGoodConfigHash: __, ...rest } }) => rest,
  ],
  ["buffer.dir", ({ buffer }) => buffer.dir],
];

/**
 * Returns why a desired config may not replace the running one, a line for each fault; empty if it may. Both have absolute paths. Its
 * additional `file` and `journald` sources must stay inside the running config's `file_roots`, and additional OTLP listeners on loopback or its
 * `listen_hosts`: who may publish configs may read logs, but not every file of every host, nor open a host to its network.
 */
export const rejectedChanges = (running: CollectorConfig, desired: CollectorConfig): string[] => {
  const fixed = fixedKeys
    .filter(([, value]) => !isDeepStrictEqual(value(running), value(desired)))
    .map(([key]) => `${key} must stay as it is on this host`);
  const outside = desired.sources.flatMap((source, index) => {
    const [key, patterns] = patternsOf(source);
    return running.sources.some((known) => isSource(known, source)) ||
      isInsideRoots(patterns, running.management.fileRoots)
      ? []
      : [`sources.${index}.${key} must stay inside management.file_roots of this host`];
  });
  const widened = desired.sources.flatMap((source, index) =>
    listenersOf(source)
      .filter(([transport, listener]) => !mayListen(running, transport, listener))
      .map(
        ([transport]) =>
          `sources.${index}.${transport} must listen on loopback, on a host of management.listen_hosts, or as it does on this host`,
      ),
  );
  return [...fixed, ...outside, ...widened];
};

/** Whether a source is a known one with its rules, and perhaps more of them. */
const isSource = (
  { processors: rules = [], ...known }: SourceConfig,
  { processors = [], ...source }: SourceConfig,
) =>
  isDeepStrictEqual(known, source) && isDeepStrictEqual(rules, processors.slice(0, rules.length));

/** Where journald keeps the journal of a host. */
const journalDirectory = "/var/log/journal";

/** Returns the key of the paths that a source reads, and patterns of these. */
const patternsOf = (source: SourceConfig): [key: string, patterns: readonly string[]] => {
  if (source.type === "file") return ["include", source.include];
  if (source.type !== "journald") return ["type", []];
  return ["directory", [`${source.directory ?? journalDirectory}/*`]];
};

/** The parts of a listener that the rules concern. */
interface ListenerConfig {
  readonly listen?: string;
  readonly allowedHosts?: readonly string[];
}

const listenersOf = (source: SourceConfig): [transport: string, listener: ListenerConfig][] => {
  if (source.type !== "otlp" && source.type !== "syslog") return [];
  return Object.entries(source).filter((entry): entry is [string, ListenerConfig] =>
    isRecord(entry[1]),
  );
};

/** Reports whether a listener is one of this host's, or may be one. A unix socket must be one: its path may be anywhere. */
const mayListen = (
  { sources, management }: CollectorConfig,
  transport: string,
  listener: ListenerConfig,
): boolean => {
  const { listen = "", allowedHosts = [] } = listener;
  const isKnown = sources
    .flatMap(listenersOf)
    .some((known) => isDeepStrictEqual(known, [transport, listener]));
  const host = splitHostPort(listen)?.host.toLowerCase() ?? "";
  const isAllowed = isOnLoopback(listen) || management.listenHosts.includes(host);
  return isKnown || (isAllowed && allowedHosts.length === 0);
};

/** Reports whether every pattern stays inside one of the roots, apart from links. */
export const isInsideRoots = (patterns: readonly string[], roots: readonly string[]): boolean =>
  patterns.every((pattern) => roots.some((root) => isInside(pattern, root)));

/** Reports whether a pattern matches nothing outside `root`, apart from links: its text starts with `root` and shows where it leads. */
const isInside = (pattern: string, root: string): boolean => {
  const base = root.endsWith("/") ? root : `${root}/`;
  return pattern.startsWith(base) && hasPlainDirectories(pattern);
};
