/*
 * Parses untrusted YAML to a plain tree. Invariants:
 * - Time and memory are linear in the text: no quadratic key check, no alias expansion (an alias shares the value that it names), and no copy of
 *   a path for each node below it. A walk through the tree is linear too, because the nodes and the text that aliases repeat are limited.
 * - A tree contains only what JSON can represent, so every tree has an RFC 8785 form.
 * - No message contains a part of the text.
 * At the end, the hash of a config, which is that of its tree.
 */
import canonicalize from "canonicalize";
import {
  Composer,
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  Parser,
} from "yaml";

/** The value of a YAML node. Mappings have no prototype, so that `constructor` and `__proto__` are ordinary keys. */
export type Tree = null | boolean | number | string | Tree[] | { [key: string]: Tree };

/** An error in a config text. `path` is like `sources.0.type`, and empty for the whole text; line and column count from 1. */
export interface ConfigTextError {
  path: string;
  line: number;
  column: number;
  message: string;
}

/** The path of a node: mapping keys and sequence indexes. */
export type TreePath = readonly (string | number)[];

/** A tree and the positions of its nodes. */
export interface ParsedTree {
  ok: true;
  tree: Tree;
  /** Creates an error at the key (`on: "key"`) or the value of `path`, or at the nearest enclosing node that exists. */
  errorAt(path: TreePath, message: string, on?: "key" | "value"): ConfigTextError;
}

/** The errors of a text that has no tree. */
export interface UnparsedTree {
  ok: false;
  errors: ConfigTextError[];
}

/** The maximum length of a config text, in UTF-8 bytes. */
export const configBytesMax = 262_144;

/** The most tokens of somebody else's text: each costs the parser time and memory. `key: value` in a line of its own has eight. */
const tokensMaxDefault = 10_000;
/** The token limit of a file that the program's own operator wrote: only its bytes are limited. */
export const anyTokens = Number.POSITIVE_INFINITY;

const depthMax = 32;
const parserDepthMax = 4 * depthMax;
const aliasedNodesMax = 10_000;
/** This many characters of text that an alias repeats count as one node. */
const charactersOfNode = 64;
/** The most errors of a text. */
export const configErrorsMax = 50;

const syntaxMessages: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: "an alias must name an anchor before it",
  BAD_DIRECTIVE: "the directive is not supported",
  BAD_INDENT: "the indentation is wrong",
  BLOCK_AS_IMPLICIT_KEY: "a nested mapping must start on its own line",
  MULTILINE_IMPLICIT_KEY: "a key must be on one line and end with a colon",
  MISSING_CHAR: "a character is missing, such as a closing quote or bracket",
  MULTIPLE_DOCS: "only one document is allowed",
  NON_STRING_KEY: "a key must be plain text",
  TAB_AS_INDENT: "indentation must be spaces, not tabs",
  TAG_RESOLVE_FAILED:
    "the tag or escape is not supported: only the core tags of YAML 1.2 are allowed",
  RESOURCE_EXHAUSTION: "the nesting is too deep",
};

/**
 * Parses one YAML 1.2 document with the core schema. Errors: duplicate keys, custom tags, several documents, numbers or strings that
 * JSON cannot represent exactly, more than `tokensMax` tokens, nesting beyond 32, and aliases to more than 10,000 nodes, each 64
 * characters of text being one. Never throws.
 */
export const parseTree = (
  text: string,
  tokensMax = tokensMaxDefault,
): ParsedTree | UnparsedTree => {
  const reject = (message: string): UnparsedTree => ({
    ok: false,
    errors: [{ path: "", line: 1, column: 1, message }],
  });
  if (new TextEncoder().encode(text).byteLength > configBytesMax)
    return reject(`must be at most ${configBytesMax} bytes`);
  if (hasMoreTokens(text, tokensMax))
    return reject(`must have at most ${tokensMax} words, marks, spaces and lines`);

  const lines = new LineCounter();
  const locate = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const documents = composeDocuments(text, lines);
  if (documents === undefined) return reject("the nesting is too deep");
  const [document, second] = documents;
  if (document === undefined) return withPositions(null, { key: 0, value: 0 }, locate);

  const errors: ConfigTextError[] = [];
  if (document.directives?.yaml.version !== "1.2")
    errors.push({ path: "", line: 1, column: 1, message: "only YAML 1.2 is supported" });
  for (const fault of [...document.errors, ...document.warnings])
    errors.push({
      path: "",
      ...locate(fault.pos[0]),
      message: syntaxMessages[fault.code] ?? "is not well-formed YAML here",
    });
  if (second !== undefined)
    errors.push({ path: "", ...locate(second.range[0]), message: "only one document is allowed" });
  if (errors.length > 0) return { ok: false, errors: errors.slice(0, configErrorsMax) };

  const positions: NodePosition = { key: 0, value: 0 };
  const faults: { path: TreePath; offset: number; message: string }[] = [];
  const tree = buildTree(document.contents, positions, faults);
  if (faults.length === 0) return withPositions(tree, positions, locate);
  return {
    ok: false,
    errors: faults
      .slice(0, configErrorsMax)
      .map(({ path, offset, message }) => ({ path: path.join("."), ...locate(offset), message })),
  };
};

/** Reports whether a text has more than `max` tokens; each line and each escape within a token counts as one more. */
const hasMoreTokens = (text: string, max: number) => {
  let tokens = 0;
  for (const lexeme of new Lexer().lex(text)) {
    tokens += lexeme.split(/[\n\\]/, max).length;
    if (tokens > max) return true;
  }
  return false;
};

/** Composes the documents of `text`; undefined once its nesting is far beyond the limit, as the composer is slow on such texts. */
const composeDocuments = (text: string, lines: LineCounter): Document.Parsed[] | undefined => {
  const parser = new Parser(lines.addNewLine);
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    merge: false,
    resolveKnownTags: false,
    stringKeys: true,
    strict: true,
    uniqueKeys: false, // it compares all pairs; `buildTree` checks instead
    logLevel: "silent",
  });
  const documents: Document.Parsed[] = [];
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) documents.push(...composer.next(token));
    if (parser.stack.length > parserDepthMax) return undefined;
  }
  for (const token of parser.end()) documents.push(...composer.next(token));
  documents.push(...composer.end());
  return documents;
};

/** Where the key and the value of a node are, and the nodes below it. */
interface NodePosition {
  key: number;
  value: number;
  children?: Map<string | number, NodePosition>;
}

const addChild = (parent: NodePosition, name: string | number, offset: number): NodePosition => {
  const child = { key: offset, value: offset };
  parent.children ??= new Map();
  parent.children.set(name, child);
  return child;
};

const withPositions = (
  tree: Tree,
  positions: NodePosition,
  locate: (offset: number) => { line: number; column: number },
): ParsedTree => ({
  ok: true,
  tree,
  errorAt: (path, message, on = "value") => {
    let known = positions;
    for (const name of path) {
      const child = known.children?.get(name);
      if (child === undefined) break;
      known = child;
    }
    return { path: path.join("."), ...locate(known[on]), message };
  },
});

const buildTree = (
  root: Node | null,
  positions: NodePosition,
  faults: { path: TreePath; offset: number; message: string }[],
): Tree => {
  const anchors = new Map<string, { tree: Tree; nodes: number } | "open">();
  let aliasedNodes = 0;
  let nodes = 0;

  const countText = (text: string) => {
    nodes += Math.floor(text.length / charactersOfNode);
  };

  const build = (node: Node | null, path: TreePath, position: NodePosition): Tree => {
    const offset = node?.range?.[0] ?? position.key;
    position.value = offset;
    const reject = (message: string) => {
      faults.push({ path, offset, message });
      return null;
    };
    nodes++;
    if (node === null) return null;
    if (path.length > depthMax) return reject("the nesting is too deep");
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined || target === "open")
        return reject("an alias must name an anchor before it");
      aliasedNodes += target.nodes;
      nodes += target.nodes;
      if (aliasedNodes > aliasedNodesMax) return reject("the aliases repeat too much");
      return target.tree;
    }
    const { anchor } = node;
    if (anchor !== undefined) anchors.set(anchor, "open");
    const before = nodes;
    const tree = buildUnaliased(node, path, position, reject);
    if (anchor !== undefined) anchors.set(anchor, { tree, nodes: nodes - before + 1 });
    return tree;
  };

  const buildUnaliased = (
    node: Node,
    path: TreePath,
    position: NodePosition,
    reject: (message: string) => null,
  ): Tree => {
    const below = (name: string | number, child: Node | null, offset: number): Tree =>
      build(child, [...path, name], addChild(position, name, offset));
    if (isSeq(node))
      return node.items.map((item, index) =>
        below(index, item as Node | null, nodeOffset(item, position.value)),
      );
    if (isMap(node)) {
      const mapping: { [key: string]: Tree } = Object.create(null);
      for (const pair of node.items as Pair<Node, Node | null>[]) {
        const key = textKey(pair.key);
        const at = nodeOffset(pair.key, position.value);
        if (key === undefined)
          faults.push({ path, offset: at, message: "a key must be plain text" });
        else if (key in mapping)
          faults.push({ path: [...path, key], offset: at, message: "the key is repeated" });
        else {
          countText(key);
          mapping[key] = below(key, pair.value, at);
        }
      }
      return mapping;
    }
    return isScalar(node) ? buildScalar(node.value, reject) : reject("is not supported");
  };

  const buildScalar = (value: unknown, reject: (message: string) => null): Tree => {
    if (typeof value === "string") {
      countText(value);
      return value.isWellFormed() ? value : reject("contains half of a surrogate pair");
    }
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return reject("must be a finite number");
      return Math.abs(value) <= Number.MAX_SAFE_INTEGER
        ? value
        : reject("must be within ±(2^53−1)");
    }
    return typeof value === "boolean" || value === null ? value : reject("is not supported");
  };

  return build(root, [], positions);
};

const textKey = (node: Node): string | undefined =>
  isScalar(node) && typeof node.value === "string" && node.value.isWellFormed()
    ? node.value
    : undefined;

const nodeOffset = (node: unknown, fallback: number) =>
  (node as Node | null)?.range?.[0] ?? fallback;

const reportingOnlyKeys = ["desired_config_hash", "last_known_good_config_hash"];

/**
 * Computes the hash of a collector config (docs/collector-config.md): the SHA-256, in lowercase hex, of the RFC 8785 form of the YAML
 * tree as written, without `labels`, `local_processors`, the two reporting-only keys and a `management` that becomes empty. Labels and
 * local rules belong to one host, so that different hosts can run one config. Comments, key order, quoting and anchors do not count;
 * defaults are not filled in. Returns null if the text is not one well-formed document; it need not be valid.
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
  const { labels: _, local_processors: __, ...counted } = tree;
  if (!isMapping(counted.management)) return counted;
  const { management, ...rest } = counted;
  const kept = Object.entries(management).filter(([key]) => !reportingOnlyKeys.includes(key));
  if (kept.length === Object.keys(management).length) return counted;
  return kept.length === 0 ? rest : { ...rest, management: Object.fromEntries(kept) };
};

const isMapping = (tree: Tree | undefined): tree is { [key: string]: Tree } =>
  typeof tree === "object" && tree !== null && !Array.isArray(tree);
