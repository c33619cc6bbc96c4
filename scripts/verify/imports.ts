import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { type Expression, type Program, parseSync, Visitor } from "oxc-parser";
import { repositoryFiles } from "../repository-files.ts";
import { findLongFunctions, type LongFunction } from "./long-functions.ts";

/** One import or re-export of a source file. */
export interface ImportEdge {
  /** The importing file, relative to the repository. */
  from: string;
  /** A file of the repository, a package's name without its subpath, or a `node:` module. */
  to: string;
  kind: "file" | "package" | "node";
  /** `import type` and `export type`, which are erased. */
  typeOnly: boolean;
  /** `import()`. */
  dynamic: boolean;
}

/** The parts of a file that the architecture rules use. */
export interface SourceFile {
  path: string;
  /** Lines with anything but white space and comments. */
  codeLines: number;
  /** Names that the file declares and exports; not those that it exports from another file. */
  exports: readonly string[];
  imports: readonly ImportEdge[];
  /** Names of `let` bindings at module level, which are state that outlives a call. */
  moduleState: readonly string[];
  readsEnvironment: boolean;
  /** The platform's time, timers and randomness that the file uses, each once, in order. */
  platformUses: readonly string[];
  /** Whether the file parses JSON or YAML itself. */
  parses: boolean;
  /** Lines with several statements or properties on one: a spread of a literal, or a list of names that becomes a list of values. */
  packedLines: readonly number[];
  longFunctions: readonly LongFunction[];
}

/** Reports whether a file runs in tests alone. */
export const isTest = (path: string): boolean =>
  /\.test\.tsx?$/.test(path) || path.startsWith("tests/");
/** Reports whether a file is generated from another one. */
export const isGenerated = (path: string): boolean => /^(proto|client)\/gen\//.test(path);

/** Not `typeof setTimeout`, which is a type, nor the method of a socket. */
const platformUse =
  /(?<![\w.]|typeof )(?:globalThis\.)?(?:setTimeout|setInterval|setImmediate|Date\.now|new Date\(\)|performance\.now|Math\.random|AbortSignal\.timeout|hrtime|process\.hrtime|crypto\.(?:getRandomValues|randomUUID)|randomUUID|randomBytes|node:timers(?:\/promises)?)(?!\w)(?!\(ms: number\))/g;

const parser = /\bJSON\.parse\b|\bv\.parseJson\b|\.json\(\)|from "yaml"/;

/** Reads every TypeScript file of the repository. */
export const readSources = (): SourceFile[] =>
  repositoryFiles("*.ts", "*.tsx")
    .filter((path) => !path.endsWith(".d.ts"))
    .map((path) => readSource(path, readFileSync(path, "utf8")));

/** Parses one TypeScript file; throws on a syntax error. */
export const readSource = (path: string, text: string): SourceFile => {
  const { module, program, comments, errors } = parseSync(path, text);
  if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
  const imports: ImportEdge[] = [];
  const add = (specifier: string, statement: string | null) =>
    imports.push({
      from: path,
      ...resolve(path, specifier),
      typeOnly: /^(import|export)\s+type\b/.test(statement ?? ""),
      dynamic: statement === null,
    });
  for (const { moduleRequest, start, end } of module.staticImports)
    add(moduleRequest.value, text.slice(start, end));
  for (const { entries, start, end } of module.staticExports)
    for (const { moduleRequest } of entries)
      if (moduleRequest) add(moduleRequest.value, text.slice(start, end));
  for (const { moduleRequest } of module.dynamicImports) {
    const literal = /^["'](.*)["']$/.exec(text.slice(moduleRequest.start, moduleRequest.end));
    if (literal?.[1]) add(literal[1], null);
  }
  const moduleState = program.body
    .map((node) =>
      node.type === "ExportNamedDeclaration" && node.declaration ? node.declaration : node,
    )
    .flatMap((node) =>
      node.type === "VariableDeclaration" && /let|var/.test(node.kind) ? node.declarations : [],
    )
    .map(({ id }) => (id.type === "Identifier" ? id.name : "a pattern"));
  const code = comments.reduceRight(
    (rest, { start, end }) =>
      rest.slice(0, start) + rest.slice(start, end).replace(/[^\n]/g, " ") + rest.slice(end),
    text,
  );
  const exported = module.staticExports
    .flatMap(({ entries }) => entries)
    .flatMap(({ exportName, moduleRequest }) =>
      moduleRequest || exportName.kind !== "Name" ? [] : (exportName.name ?? []),
    );
  return {
    path,
    codeLines: code.split("\n").filter((line) => /\S/.test(line)).length,
    exports: [...new Set(exported)],
    imports,
    moduleState,
    platformUses: [
      ...new Set([...code.matchAll(platformUse)].map(([use]) => use.replace(/^globalThis\./, ""))),
    ].sort(),
    parses: parser.test(code),
    readsEnvironment: /\bprocess\s*\.\s*env\b/.test(text),
    packedLines: findPacked(program).map((start) => text.slice(0, start).split("\n").length),
    longFunctions: findLongFunctions(program, code),
  };
};

/** Returns where a program is packed. */
const findPacked = (program: Program): number[] => {
  const found: number[] = [];
  const isLiteral = (value: Expression | null): boolean =>
    value?.type === "ArrayExpression" ||
    value?.type === "ObjectExpression" ||
    (value?.type === "ParenthesizedExpression" && isLiteral(value.expression));
  const isList = (value: Expression | null) => value?.type === "ArrayExpression";
  new Visitor({
    SpreadElement: ({ argument, start }) => {
      if (isLiteral(argument)) found.push(start);
    },
    VariableDeclarator: ({ id, init, start }) => {
      if (id.type === "ArrayPattern" && isList(init)) found.push(start);
    },
    AssignmentExpression: ({ left, right, start }) => {
      if (left.type === "ArrayPattern" && isList(right)) found.push(start);
    },
  }).visit(program);
  return found;
};

const resolve = (from: string, specifier: string): Pick<ImportEdge, "to" | "kind"> => {
  if (specifier.startsWith("."))
    return { to: posix.join(posix.dirname(from), specifier), kind: "file" };
  // One of the package's own folders, as package.json's `imports` name them.
  if (specifier.startsWith("#")) return { to: specifier.slice(1), kind: "file" };
  if (specifier.startsWith("node:")) return { to: specifier, kind: "node" };
  const parts = specifier.split("/");
  return { to: parts.slice(0, specifier.startsWith("@") ? 2 : 1).join("/"), kind: "package" };
};
