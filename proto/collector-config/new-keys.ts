import { isRecord } from "../values.ts";
import type { Tree, TreePath } from "./tree.ts";

/**
 * The keys, and the types of sources, that collectors before a version reject: without the indices of lists, and without the keys below
 * them. Each version is the lowest of its prereleases.
 */
const newKeys: Readonly<Record<string, readonly string[]>> = {
  "0.4.0-0": [
    "sources.type: journald",
    "sources.type: syslog",
    "sources.preset",
    "sources.pod_labels",
    "sources.processors",
    "processors",
    "local_processors",
    "sources.follow_links",
    "sources.hidden",
    "sources.partial_after_ms",
    "sources.encoding",
    "sources.multiline",
    "sources.max_held_files",
    "sources.max_held_mb",
    "buffer.ephemeral",
    "proxy",
    "management.ca_pinned",
    "management.remote_diag",
  ],
};

const versions = new Map(
  Object.entries(newKeys).flatMap(([version, keys]) => keys.map((key) => [key, version] as const)),
);

/** A key of a config as `sources.0.processors` or `sources.0.type: journald`, and the first version that knows it. */
export interface NewKey {
  key: string;
  since: string;
}

/** Returns the keys of a config that not every version knows, the outermost ones in their order. */
export const newKeysIn = (tree: Tree, path: readonly (string | number)[] = []): NewKey[] => {
  const name = path.join(".");
  for (const key of typeof tree === "string" ? [name, `${name}: ${tree}`] : [name]) {
    const since = versions.get(key.replace(/\.\d+(?=[.:]|$)/g, ""));
    if (since !== undefined) return [{ key, since }];
  }
  if (tree === null || typeof tree !== "object") return [];
  const members: [string | number, Tree][] = Array.isArray(tree)
    ? [...tree.entries()]
    : Object.entries(tree);
  return members.flatMap(([at, member]) => newKeysIn(member, [...path, at]));
};

/** Returns where a checked config of an OpenTelemetry Collector first has each type of component, as `exporters.kafka`. */
export const componentTypesIn = (tree: Tree): Map<string, TreePath> => {
  const types = new Map<string, TreePath>();
  for (const [group, components] of Object.entries(isRecord(tree) ? tree : {}))
    for (const id of group !== "service" && isRecord(components) ? Object.keys(components) : []) {
      const type = `${group}.${id.split("/", 1)[0]}`;
      if (!types.has(type)) types.set(type, [group, id]);
    }
  return types;
};
