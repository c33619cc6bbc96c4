import { isDeepStrictEqual } from "node:util";
import { hasPlainDirectories } from "../../proto/collector-config/file-patterns.ts";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";

/** Every key that a desired config may not change, and how to read its value. */
const fixedKeys: readonly [key: string, value: (config: CollectorConfig) => unknown][] = [
  ["host_id", ({ hostId }) => hostId],
  ["labels", ({ labels }) => labels],
  ["run_as_root_acknowledged", ({ runAsRootAcknowledged }) => runAsRootAcknowledged],
  ["forwarder.endpoint", ({ forwarder }) => forwarder.endpoint],
  ["forwarder.mtls", ({ forwarder }) => forwarder.mtls],
  // Without the reporting-only keys, which have no effect.
  ["management", ({ management: { desiredConfigHash: _, lastKnownGoodConfigHash: __, ...rest } }) => rest],
  ["buffer.dir", ({ buffer }) => buffer.dir],
];

/**
 * Returns why a desired config may not replace the running one, a line for each fault; empty if it may. Both have absolute paths. Its
 * additional `file` sources must stay inside the running config's `file_roots`: who may publish configs may read logs, but not every
 * file of every host.
 */
export const rejectedChanges = (running: CollectorConfig, desired: CollectorConfig): string[] => {
  const fixed = fixedKeys
    .filter(([, value]) => !isDeepStrictEqual(value(running), value(desired)))
    .map(([key]) => `${key} must stay as it is on this host`);
  const outside = desired.sources.flatMap((source, index) =>
    source.type !== "file" ||
    running.sources.some((known) => isDeepStrictEqual(known, source)) ||
    isInsideRoots(source.include, running.management.fileRoots)
      ? []
      : [`sources.${index}.include must stay inside management.file_roots of this host`],
  );
  return [...fixed, ...outside];
};

/** Whether every pattern stays inside one of the roots, apart from links. */
export const isInsideRoots = (patterns: readonly string[], roots: readonly string[]): boolean =>
  patterns.every((pattern) => roots.some((root) => isInside(pattern, root)));

/** Whether a pattern matches nothing outside `root`, apart from links: its text starts with `root` and shows where it leads. */
const isInside = (pattern: string, root: string): boolean => {
  const base = root.endsWith("/") ? root : `${root}/`;
  return pattern.startsWith(base) && hasPlainDirectories(pattern);
};
