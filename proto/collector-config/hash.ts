import canonicalize from "canonicalize";
import { type ParsedTree, parseTree, type Tree, type UnparsedTree } from "./tree.ts";

const reportingOnlyKeys = ["desired_config_hash", "last_known_good_config_hash"];

/**
 * Computes the hash of a collector config (docs/collector-config.md): the SHA-256, in lowercase hex, of the RFC 8785 form of the YAML
 * tree as written, without `labels`, the two reporting-only keys and a `management` that becomes empty. Labels belong to one host, so
 * that hosts with different labels can run one config. Comments, key order, quoting and
 * anchors do not count; defaults are not filled in. Returns null if the text is not one well-formed document; it need not be valid.
 */
export const configHash = (text: string): Promise<string | null> => hashTree(parseTree(text));

/** Computes the hash of a config that is parsed already: see `configHash`. */
export const hashTree = async (parsed: ParsedTree | UnparsedTree): Promise<string | null> => {
  if (!parsed.ok) return null;
  const canonical = canonicalize(withoutReportingOnly(parsed.tree));
  if (canonical === undefined) return null;
  return new Uint8Array(
    await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical)),
  ).toHex();
};

const withoutReportingOnly = (tree: Tree): Tree => {
  if (!isMapping(tree)) return tree;
  const { labels: _, ...counted } = tree;
  if (!isMapping(counted.management)) return counted;
  const { management, ...rest } = counted;
  const kept = Object.entries(management).filter(([key]) => !reportingOnlyKeys.includes(key));
  if (kept.length === Object.keys(management).length) return counted;
  return kept.length === 0 ? rest : { ...rest, management: Object.fromEntries(kept) };
};

const isMapping = (tree: Tree | undefined): tree is { [key: string]: Tree } =>
  typeof tree === "object" && tree !== null && !Array.isArray(tree);
