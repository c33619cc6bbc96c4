/*
 * Parses untrusted YAML to a plain tree. Invariants:
 * - The time is linear in the text: no quadratic key check, no alias expansion (an alias shares the value that it names).
 * - A tree contains only what JSON can represent, so every tree has an RFC 8785 form.
 * - No message contains a part of the text.
 */
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

const depthMax = 32;
const parserDepthMax = 4 * depthMax;
const aliasedNodesMax = 10_000;
const errorsMax = 50;

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
  TAG_RESOLVE_FAILED: "the tag or escape is not supported: only the core tags of YAML 1.2 are allowed",
  RESOURCE_EXHAUSTION: "the nesting is too deep",
};

/**
 * Parses one YAML 1.2 document with the core schema. Errors: duplicate keys, custom tags, several documents, numbers or strings that
 * JSON cannot represent exactly, nesting beyond 32, and aliases to more than 10,000 nodes. Never throws.
 */
export const parseTree = (text: string): ParsedTree | UnparsedTree => {
  if (new TextEncoder().encode(text).byteLength > configBytesMax)
    return {
      ok: false,
      errors: [{ path: "", line: 1, column: 1, message: `must be at most ${configBytesMax} bytes` }],
    };

  const lines = new LineCounter();
  const locate = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const documents = composeDocuments(text, lines);
  if (documents === undefined)
    return { ok: false, errors: [{ path: "", line: 1, column: 1, message: "the nesting is too deep" }] };
  const [document, second] = documents;
  if (document === undefined) return withPositions(null, new Map(), locate);

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
  if (errors.length > 0) return { ok: false, errors: errors.slice(0, errorsMax) };

  const positions = new Map<string, NodePosition>();
  const faults: { path: TreePath; offset: number; message: string }[] = [];
  const tree = buildTree(document.contents, positions, faults);
  if (faults.length === 0) return withPositions(tree, positions, locate);
  return {
    ok: false,
    errors: faults
      .slice(0, errorsMax)
      .map(({ path, offset, message }) => ({ path: path.join("."), ...locate(offset), message })),
  };
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

interface NodePosition {
  key: number;
  value: number;
}

const positionKey = (path: TreePath): string => JSON.stringify(path);

const withPositions = (
  tree: Tree,
  positions: ReadonlyMap<string, NodePosition>,
  locate: (offset: number) => { line: number; column: number },
): ParsedTree => ({
  ok: true,
  tree,
  errorAt: (path, message, on = "value") => {
    let known = path;
    while (known.length > 0 && !positions.has(positionKey(known))) known = known.slice(0, -1);
    const found = positions.get(positionKey(known));
    return { path: path.join("."), ...locate(found?.[on] ?? 0), message };
  },
});

const buildTree = (
  root: Node | null,
  positions: Map<string, NodePosition>,
  faults: { path: TreePath; offset: number; message: string }[],
): Tree => {
  const anchors = new Map<string, { tree: Tree; nodes: number } | "open">();
  let aliasedNodes = 0;
  let nodes = 0;

  const build = (node: Node | null, path: TreePath, keyOffset: number): Tree => {
    const offset = node?.range?.[0] ?? keyOffset;
    positions.set(positionKey(path), { key: keyOffset, value: offset });
    const reject = (message: string): null => {
      faults.push({ path, offset, message });
      return null;
    };
    nodes++;
    if (node === null) return null;
    if (path.length > depthMax) return reject("the nesting is too deep");
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined || target === "open") return reject("an alias must name an anchor before it");
      aliasedNodes += target.nodes;
      nodes += target.nodes;
      if (aliasedNodes > aliasedNodesMax) return reject("the aliases repeat too much");
      return target.tree;
    }
    const anchor = isMap(node) || isSeq(node) || isScalar(node) ? node.anchor : undefined;
    if (anchor !== undefined) anchors.set(anchor, "open");
    const before = nodes;
    const tree = buildUnaliased(node, path, offset, reject);
    if (anchor !== undefined) anchors.set(anchor, { tree, nodes: nodes - before + 1 });
    return tree;
  };

  const buildUnaliased = (node: Node, path: TreePath, offset: number, reject: (message: string) => null): Tree => {
    if (isSeq(node))
      return node.items.map((item, index) => build(item as Node | null, [...path, index], nodeOffset(item, offset)));
    if (isMap(node)) {
      const mapping: { [key: string]: Tree } = Object.create(null);
      for (const pair of node.items as Pair<Node, Node | null>[]) {
        const key = isScalar(pair.key) && typeof pair.key.value === "string" ? pair.key.value : undefined;
        const at = nodeOffset(pair.key, offset);
        if (key === undefined || !key.isWellFormed())
          faults.push({ path, offset: at, message: "a key must be plain text" });
        else if (key in mapping) faults.push({ path: [...path, key], offset: at, message: "the key is repeated" });
        else mapping[key] = build(pair.value, [...path, key], at);
      }
      return mapping;
    }
    if (!isScalar(node)) return reject("is not supported");
    const { value } = node;
    if (typeof value === "string") return value.isWellFormed() ? value : reject("contains half of a surrogate pair");
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return reject("must be a finite number");
      return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : reject("must be within ±(2^53−1)");
    }
    return typeof value === "boolean" || value === null ? value : reject("is not supported");
  };

  return build(root, [], 0);
};

const nodeOffset = (node: unknown, fallback: number): number => (node as Node | null)?.range?.[0] ?? fallback;
