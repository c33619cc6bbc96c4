/*
 * YAML text to a plain tree, for texts that anybody may have written.
 *
 * Invariants: the work is linear in the text (no quadratic key check, no alias expansion: an alias shares the value it names);
 * a tree holds only what JSON can hold, so every tree has an RFC 8785 form; no message holds a piece of the text.
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

/** What a YAML node becomes. Mappings have no prototype, so that `constructor` and `__proto__` are keys like any other. */
export type Tree = null | boolean | number | string | Tree[] | { [key: string]: Tree };

/** One thing wrong with a configuration text. `path` is like `sources.0.type`, empty for the whole; line and column count from 1. */
export interface ConfigTextError {
  path: string;
  line: number;
  column: number;
  message: string;
}

/** The path of a node: mapping keys and sequence indexes. */
export type TreePath = readonly (string | number)[];

/** A tree and where its parts stand in the text. */
export interface ParsedTree {
  ok: true;
  tree: Tree;
  /** An error at the key (`on: "key"`) or the value at `path`; the nearest enclosing node when there is none. */
  errorAt(path: TreePath, message: string, on?: "key" | "value"): ConfigTextError;
}

/** Faults of a text that gives no tree. */
export interface UnparsedTree {
  ok: false;
  errors: ConfigTextError[];
}

/** The longest configuration text, in UTF-8 bytes (contract §5). */
export const configBytesMax = 262_144;

const depthMax = 32;
const parserDepthMax = 4 * depthMax;
const aliasedNodesMax = 10_000;
const errorsMax = 50;

const syntaxMessages: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: "an alias must name an anchor that stands before it",
  BAD_DIRECTIVE: "the directive is not understood",
  BAD_INDENT: "the indentation is wrong",
  BLOCK_AS_IMPLICIT_KEY: "a nested mapping must begin on a line of its own",
  MULTILINE_IMPLICIT_KEY: "a key must stand on one line and end with a colon",
  MISSING_CHAR: "a character is missing, such as a closing quote or bracket",
  MULTIPLE_DOCS: "only one document is allowed",
  NON_STRING_KEY: "a key must be plain text",
  TAB_AS_INDENT: "indentation must be spaces, not tabs",
  TAG_RESOLVE_FAILED: "the tag or escape is not understood: only the core tags of YAML 1.2 are allowed",
  RESOURCE_EXHAUSTION: "the nesting is too deep",
};

/**
 * Parses one YAML 1.2 document by the core schema: duplicate keys, custom tags, several documents, numbers or strings that JSON
 * cannot carry exactly, nesting beyond 32 and aliases that name more than 10,000 nodes are errors. Never throws.
 */
export const parseTree = (text: string): ParsedTree | UnparsedTree => {
  if (new TextEncoder().encode(text).byteLength > configBytesMax)
    return {
      ok: false,
      errors: [{ path: "", line: 1, column: 1, message: `must be at most ${configBytesMax} bytes` }],
    };

  const lines = new LineCounter();
  const place = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const documents = composeDocuments(text, lines);
  if (documents === undefined)
    return { ok: false, errors: [{ path: "", line: 1, column: 1, message: "the nesting is too deep" }] };
  const [document, second] = documents;
  if (document === undefined) return built(null, new Map(), place);

  const errors: ConfigTextError[] = [];
  if (document.directives?.yaml.version !== "1.2")
    errors.push({ path: "", line: 1, column: 1, message: "only YAML 1.2 is understood" });
  for (const fault of [...document.errors, ...document.warnings])
    errors.push({
      path: "",
      ...place(fault.pos[0]),
      message: syntaxMessages[fault.code] ?? "is not well-formed YAML here",
    });
  if (second !== undefined)
    errors.push({ path: "", ...place(second.range[0]), message: "only one document is allowed" });
  if (errors.length > 0) return { ok: false, errors: errors.slice(0, errorsMax) };

  const places = new Map<string, NodePlace>();
  const faults: { path: TreePath; offset: number; message: string }[] = [];
  const tree = buildTree(document.contents, places, faults);
  if (faults.length === 0) return built(tree, places, place);
  return {
    ok: false,
    errors: faults
      .slice(0, errorsMax)
      .map(({ path, offset, message }) => ({ path: path.join("."), ...place(offset), message })),
  };
};

/** The documents of `text`; undefined as soon as its nesting leaves all bounds (the composer is slow on such texts). */
const composeDocuments = (text: string, lines: LineCounter): Document.Parsed[] | undefined => {
  const parser = new Parser(lines.addNewLine);
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    merge: false,
    resolveKnownTags: false,
    stringKeys: true,
    strict: true,
    uniqueKeys: false, // compares all pairs; `buildTree` checks as it goes
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

interface NodePlace {
  key: number;
  value: number;
}

const placeKey = (path: TreePath): string => JSON.stringify(path);

const built = (
  tree: Tree,
  places: ReadonlyMap<string, NodePlace>,
  place: (offset: number) => { line: number; column: number },
): ParsedTree => ({
  ok: true,
  tree,
  errorAt: (path, message, on = "value") => {
    let known = path;
    while (known.length > 0 && !places.has(placeKey(known))) known = known.slice(0, -1);
    const found = places.get(placeKey(known));
    return { path: path.join("."), ...place(found?.[on] ?? 0), message };
  },
});

const buildTree = (
  root: Node | null,
  places: Map<string, NodePlace>,
  faults: { path: TreePath; offset: number; message: string }[],
): Tree => {
  const anchors = new Map<string, { tree: Tree; nodes: number } | "open">();
  let aliasedNodes = 0;
  let nodes = 0;

  const build = (node: Node | null, path: TreePath, keyOffset: number): Tree => {
    const offset = node?.range?.[0] ?? keyOffset;
    places.set(placeKey(path), { key: keyOffset, value: offset });
    const refuse = (message: string): null => {
      faults.push({ path, offset, message });
      return null;
    };
    nodes++;
    if (node === null) return null;
    if (path.length > depthMax) return refuse("the nesting is too deep");
    if (isAlias(node)) {
      const target = anchors.get(node.source);
      if (target === undefined || target === "open")
        return refuse("an alias must name an anchor that stands before it");
      aliasedNodes += target.nodes;
      nodes += target.nodes;
      if (aliasedNodes > aliasedNodesMax) return refuse("the aliases repeat too much");
      return target.tree;
    }
    const anchor = isMap(node) || isSeq(node) || isScalar(node) ? node.anchor : undefined;
    if (anchor !== undefined) anchors.set(anchor, "open");
    const before = nodes;
    const tree = buildUnaliased(node, path, offset, refuse);
    if (anchor !== undefined) anchors.set(anchor, { tree, nodes: nodes - before + 1 });
    return tree;
  };

  const buildUnaliased = (node: Node, path: TreePath, offset: number, refuse: (message: string) => null): Tree => {
    if (isSeq(node))
      return node.items.map((item, index) => build(item as Node | null, [...path, index], nodeOffset(item, offset)));
    if (isMap(node)) {
      const mapping: { [key: string]: Tree } = Object.create(null);
      for (const pair of node.items as Pair<Node, Node | null>[]) {
        const key = isScalar(pair.key) && typeof pair.key.value === "string" ? pair.key.value : undefined;
        const at = nodeOffset(pair.key, offset);
        if (key === undefined || !key.isWellFormed())
          faults.push({ path, offset: at, message: "a key must be plain text" });
        else if (key in mapping) faults.push({ path: [...path, key], offset: at, message: "the key stands twice" });
        else mapping[key] = build(pair.value, [...path, key], at);
      }
      return mapping;
    }
    if (!isScalar(node)) return refuse("is not understood");
    const { value } = node;
    if (typeof value === "string") return value.isWellFormed() ? value : refuse("holds half of a surrogate pair");
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return refuse("must be a finite number");
      return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : refuse("must be within ±(2^53−1)");
    }
    return typeof value === "boolean" || value === null ? value : refuse("is not understood");
  };

  return build(root, [], 0);
};

const nodeOffset = (node: unknown, fallback: number): number => (node as Node | null)?.range?.[0] ?? fallback;
