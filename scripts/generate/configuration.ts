import { readFileSync } from "node:fs";
import { type Node, parseSync, Visitor } from "oxc-parser";
import type * as v from "valibot";
import { coreVariables } from "#functions/config/core-config.ts";
import { exportVariables } from "#functions/config/export-config.ts";
import { fileFormsOf, marksOf } from "#kit/env.ts";
import { tracesVariables } from "#kit/tracing/config.ts";
import { webVariables } from "#ui/bff/config.ts";
import { repositoryFiles } from "../repository-files.ts";

/** The variables of a program, and the files that declare them, each variable under a comment that says what it means. */
interface Program {
  variables: v.ObjectEntries;
  files: readonly string[];
}

const without = ({ variables }: Program, all: v.ObjectEntries): v.ObjectEntries =>
  Object.fromEntries(Object.entries(all).filter(([name]) => !(name in variables)));

const traces: Program = { variables: tracesVariables, files: ["kit/tracing/config.ts"] };
const programs: Readonly<Record<string, Program>> = {
  core: {
    variables: without(traces, coreVariables),
    files: repositoryFiles("functions/config/*.ts"),
  },
  export: { variables: exportVariables, files: ["functions/config/export-config.ts"] },
  web: { variables: without(traces, webVariables), files: ["ui/bff/config.ts"] },
  traces,
};

const declaration = /^ {2}\/\*\*((?:(?!\*\/).)+)\*\/\n {2}([A-Z][A-Z_]+): /gms;

/** Returns what a comment says, in one line. */
const oneLine = (comment: string): string =>
  comment
    .replace(/\n\s*\*?|^\*/g, " ")
    .replace(/ +/g, " ")
    .trim();

const meaningsOf = ({ files }: Program): ReadonlyMap<string, string> =>
  new Map(
    files.flatMap((file) =>
      Array.from(
        readFileSync(file, "utf8").matchAll(declaration),
        ([, comment = "", name = ""]) => [name, oneLine(comment)] as const,
      ),
    ),
  );

const defaultOf = (schema: object): string => {
  if (!("default" in schema)) return "required";
  return typeof schema.default === "string" ? `\`${schema.default}\`` : "";
};

const listOf = (program: Program): string => {
  const meanings = meaningsOf(program);
  const fileForms = fileFormsOf(program.variables);
  const items = Object.entries(program.variables).map(([name, schema]) => {
    const meaning = meanings.get(name);
    if (meaning === undefined) throw new Error(`${name} has no comment that says what it means`);
    const form = fileForms.includes(name) ? "`_FILE`" : "";
    const once = marksOf(schema).readOnce === undefined ? "" : "restart";
    const notes = [defaultOf(schema), form, once].filter((note) => note !== "").join(", ");
    return `- \`${name}\`${notes === "" ? "" : ` (${notes})`}: ${meaning}`;
  });
  return items.join("\n");
};

/** Lists the variables whose files are read at the start alone, each with its reason. */
const listReadOnce = (): string => {
  const all = Object.assign({}, ...Object.values(programs).map(({ variables }) => variables));
  const once = Object.entries<v.ObjectEntries[string]>(all).filter(
    ([, schema]) => marksOf(schema).readOnce !== undefined,
  );
  const byReason = Map.groupBy(once, ([, schema]) => marksOf(schema).readOnce);
  return Array.from(byReason, ([reason, group]) => {
    const names = group.map(([name]) => `\`${name}\``);
    return `- ${names.join(", ")}: ${reason}`;
  }).join("\n");
};

/** Renders the lists of variables from the declarations that parse them: those of each program, and those that are read once. */
export const renderConfigurations = (): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(Object.entries(programs).map(([name, program]) => [name, listOf(program)])),
  "read-once": listReadOnce(),
});

/** The files with the schema of a collector's config, in the order of its keys. */
const keysFiles = ["sources.ts", "processors.ts", "schema.ts"].map(
  (name) => `proto/collector-config/${name}`,
);

/** Where the schemas of the sources stand in a config. */
const pathOf = (schema: string): string[] => {
  if (schema === "otlpListener") return ["sources", "grpc"];
  if (schema === "Condition") return ["processors", "drop"];
  if (schema === "Processor") return ["processors"];
  return schema.endsWith("Source") ? ["sources"] : [];
};

/** Renders the list of the collector's keys: each with its default, and the comment in its schema. */
export const renderCollectorKeys = (): string => keysFiles.map(renderKeys).join("\n");

const renderKeys = (keysFile: string): string => {
  const text = readFileSync(keysFile, "utf8");
  const { program, comments } = parseSync(keysFile, text);
  const source = (node: { start: number; end: number }) => text.slice(node.start, node.end);
  const meaningBefore = (start: number) => {
    const comment = comments.find(({ end }) => end < start && text.slice(end, start).trim() === "");
    return comment && oneLine(comment.value);
  };
  const defaultIn = (value: Node): string => {
    if (value.type !== "CallExpression") return " (required)";
    if (!/^(v\.optional|otlpListener)$/.test(source(value.callee))) return " (required)";
    const fallback = value.arguments[1];
    return fallback === undefined || fallback.type === "Identifier"
      ? ""
      : ` (\`${source(fallback).replace(/_|^"|"$/g, "")}\`)`;
  };
  const items: string[] = [];
  let path: string[] = [];
  new Visitor({
    VariableDeclarator(node) {
      if (node.id.type === "Identifier") path = pathOf(node.id.name);
    },
    Property(node) {
      path.push(source(node.key));
      const meaning = meaningBefore(node.start);
      if (meaning !== undefined)
        items.push(`- \`${path.join(".")}\`${defaultIn(node.value)}: ${meaning}`);
    },
    "Property:exit"() {
      path.pop();
    },
  }).visit(program);
  return items.join("\n");
};
