import { isDeepStrictEqual } from "node:util";
import { parseDocument } from "yaml";
import { anyTokens, parseTree, type Tree } from "#proto/collector-config/tree.ts";

/**
 * Returns a config's text with the labels and the rules of this host, as its `present` text has them; if it has the same, as it is. Keeps
 * comments. The hash of the config stays the same, as neither counts.
 */
export const keepHostOwned = (text: string, present: string): string => {
  const before = hostOwned(text);
  const changed = Object.entries(hostOwned(present)).filter(
    ([key, value]) => !isDeepStrictEqual(value, before[key]),
  );
  if (changed.length === 0) return text;
  const document = parseDocument(text, { version: "1.2", schema: "core", merge: false });
  for (const [key, value] of changed) document.set(key, document.createNode(value));
  return document.toString({ lineWidth: 0 });
};

/** Returns what belongs to the host: without `local_processors`, as before its first desired config, all `processors` do. */
const hostOwned = (text: string): { [key: string]: Tree } => {
  const parsed = parseTree(text, anyTokens);
  const tree = parsed.ok ? parsed.tree : null;
  const {
    labels = {},
    local_processors,
    processors = [],
  } = (tree ?? {}) as { [key: string]: Tree };
  return { labels, local_processors: local_processors ?? processors };
};
