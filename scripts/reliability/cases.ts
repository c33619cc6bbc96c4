import { readFileSync } from "node:fs";
import { parseSync, Visitor } from "oxc-parser";
import * as v from "valibot";
import { parse } from "yaml";
import { repositoryFiles } from "../repository-files.ts";

interface NamedTest {
  file: string;
  name: string;
}

const CaseText = v.pipe(v.string(), v.regex(/^.+ → .+$/));
const Case = v.union([
  v.pipe(
    CaseText,
    v.transform((text): { text: string; long?: string | undefined; gap?: string | undefined } => ({
      text,
    })),
  ),
  v.strictObject({ text: CaseText, long: v.optional(v.string()), gap: v.optional(v.string()) }),
]);
const Cases = v.record(v.string(), v.record(v.string(), Case));
const Package = v.object({ scripts: v.record(v.string(), v.string()) });

/** A fault or an attack, what must hold, and the tests that show it. */
export interface ReliabilityCase {
  group: string;
  id: string;
  /** The fault → the guarantee. */
  text: string;
  /** The command that runs the fault as written. */
  long?: string | undefined;
  /** The part that no test runs. */
  gap?: string | undefined;
  tests: readonly NamedTest[];
}

/** The facts that cases, tests and package.json state. */
export interface Reliability {
  cases: readonly ReliabilityCase[];
  faults: string[];
}

/** Reads the cases of cases.yaml with the tests that name them, and the faults of both (`caseFaults`). */
export const readReliability = (): Reliability => {
  const groups = v.parse(
    Cases,
    parse(readFileSync(new URL("./cases.yaml", import.meta.url), "utf8")),
  );
  const tests = namedTests("*.test.ts", "*.test.tsx");
  const cases = Object.entries(groups).flatMap(([group, members]) =>
    Object.entries(members).map(([id, described]) => {
      const named = tests.filter(({ name }) => idsOf(name).includes(id));
      return { ...described, group, id, tests: named };
    }),
  );
  const { scripts } = v.parse(Package, JSON.parse(readFileSync("package.json", "utf8")));
  return { cases, faults: caseFaults(cases, tests, new Set(Object.keys(scripts))) };
};

/**
 * Returns the faults of cases: a test names one that does not exist, one without a test does not say why (`gap`), or one names a command
 * that package.json lacks.
 */
export const caseFaults = (
  cases: readonly ReliabilityCase[],
  tests: readonly NamedTest[],
  scripts: ReadonlySet<string>,
): string[] => {
  const known = new Set(cases.map(({ id }) => id));
  const unknown = tests.flatMap(({ file, name }) =>
    idsOf(name)
      .filter((id) => !known.has(id))
      .map((id) => `${file}: "${name}" names the case ${id}, which does not exist`),
  );
  const untested = cases
    .filter((described) => described.tests.length === 0 && described.gap === undefined)
    .map(({ id }) => `${id}: no test names it, and it has no gap`);
  const commands = cases
    .filter(({ long }) => long !== undefined && !scripts.has(long.split(" ")[0] ?? ""))
    .map(({ id, long }) => `${id}: package.json has no script for "${long}"`);
  return [...unknown, ...untested, ...commands];
};

/** Renders a case as text: what happens, what must hold, the tests, the long form and what no test covers. */
export const renderCase = ({ id, text, tests, long, gap }: ReliabilityCase): string =>
  [
    `${id}: ${text}`,
    ...tests.map(({ file, name }) => `  ${file}: ${name.replace(/^[^:]+: /, "")}`),
    ...(long === undefined ? [] : [`  long form: npx -y bun@1.4.5 run ${long}`]),
    ...(gap === undefined ? [] : [`  not covered: ${gap}`]),
  ].join("\n");

/** Returns the tests of the files of some patterns, as `testsIn` does. */
export const namedTests = (...patterns: string[]): NamedTest[] =>
  repositoryFiles(...patterns).flatMap(testsIn);

/**
 * Returns the tests of a file whose name is a literal: `it("…")`, `it.each(…)("…")`, `describe`, and `through`, which runs only
 * where the program is installed.
 */
const testsIn = (file: string): NamedTest[] => {
  const text = readFileSync(file, "utf8");
  const names: string[] = [];
  const visitor = new Visitor({
    CallExpression(call) {
      if (!/^(it|test|describe|through)\b/.test(text.slice(call.callee.start, call.callee.end)))
        return;
      const [first] = call.arguments;
      if (first?.type === "Literal" && typeof first.value === "string") names.push(first.value);
      if (first?.type === "TemplateLiteral")
        names.push(first.quasis.map(({ value }) => value.cooked ?? "").join("…"));
    },
  });
  visitor.visit(parseSync(file, text).program);
  return names.map((name) => ({ file, name }));
};

/** Returns the ids at the head of a name: `E1: …`, `E1, E3: …`, `H1 to H3: …`. */
const idsOf = (name: string): string[] => {
  const head = /^((?:[A-Z]\d{1,2}(?:, | and | to |\/)?)+):/.exec(name)?.[1];
  if (head === undefined) return [];
  return head.split(/, | and |\//).flatMap((part) => {
    const range = /^([A-Z])(\d+) to \1(\d+)$/.exec(part);
    if (!range) return [part];
    const [, letter = "", from = 0, to = 0] = range;
    return Array.from(
      { length: Number(to) - Number(from) + 1 },
      (_, index) => `${letter}${Number(from) + index}`,
    );
  });
};
