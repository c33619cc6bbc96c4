import { isDeepStrictEqual } from "node:util";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";

/** Every key that a config from core may not change (contract §8), and what it holds. */
const fixedKeys: readonly [key: string, value: (config: CollectorConfig) => unknown][] = [
  ["host_id", ({ hostId }) => hostId],
  ["run_as_root_acknowledged", ({ runAsRootAcknowledged }) => runAsRootAcknowledged],
  ["forwarder.endpoint", ({ forwarder }) => forwarder.endpoint],
  ["forwarder.mtls", ({ forwarder }) => forwarder.mtls],
  // The reporting-only keys change nothing.
  ["management", ({ management: { desiredConfigHash: _, lastKnownGoodConfigHash: __, ...rest } }) => rest],
  ["buffer.dir", ({ buffer }) => buffer.dir],
];

/**
 * Why a config from core may not replace the running one: a line for each fault, empty if it may. Both have absolute paths. `file`
 * sources that it adds must stay inside the running config's `file_roots`, so that who may publish configs can read logs and not
 * every file of every host.
 */
export const refusedChanges = (running: CollectorConfig, desired: CollectorConfig): string[] => {
  const fixed = fixedKeys
    .filter(([, value]) => !isDeepStrictEqual(value(running), value(desired)))
    .map(([key]) => `${key} must stay as it is on this host`);
  const outside = desired.sources.flatMap((source, index) =>
    source.type !== "file" ||
    running.sources.some((known) => isDeepStrictEqual(known, source)) ||
    source.include.every((pattern) => running.management.fileRoots.some((root) => isInside(pattern, root)))
      ? []
      : [`sources.${index}.include must stay inside management.file_roots of this host`],
  );
  return [...fixed, ...outside];
};

/**
 * Whether a pattern finds nothing outside `root`, links aside: what stands before its first wildcard says so, and it has no `..`,
 * which after a wildcard or inside braces could lead out again.
 */
const isInside = (pattern: string, root: string): boolean => {
  const base = root.endsWith("/") ? root : `${root}/`;
  return !pattern.includes("..") && !base.includes("..") && pattern.startsWith(base);
};
