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
    v.transform((text): { text: string; long?: string | undefined; gap?: string | undefined } => ({ text })),
  ),
  v.strictObject({ text: CaseText, long: v.optional(v.string()), gap: v.optional(v.string()) }),
]);
type Case = v.InferOutput<typeof Case>;
const Cases = v.record(v.string(), v.record(v.string(), Case));
const Package = v.object({ scripts: v.record(v.string(), v.string()) });

/**
 * Returns `docs/reliability.md`, an index from case to test file, and a page per group with each case and its tests. Throws when a test
 * names a case that does not exist, or a case names a command that does not.
 */
export const renderReliabilityPages = (): { path: string; text: string }[] => {
  const groups = v.parse(Cases, parse(readFileSync(new URL("./reliability-cases.yaml", import.meta.url), "utf8")));
  for (const [id, { long }] of Object.values(groups).flatMap(Object.entries<Case>)) requireScript(id, long);
  const testsOf = testsByCase(new Set(Object.values(groups).flatMap((cases) => Object.keys(cases))));
  const pages = Object.entries(groups).map(([group, cases]) => ({
    path: `docs/reliability/${slugOf(group)}.md`,
    text: renderGroup(group, cases, testsOf),
  }));
  return [{ path: "docs/reliability.md", text: renderIndex(groups, testsOf) }, ...pages];
};

/** Throws unless `command` is `<script of package.json>`, with arguments or without. */
const requireScript = (id: string, command: string | undefined): void => {
  if (command === undefined) return;
  const { scripts } = v.parse(
    Package,
    JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")),
  );
  if (scripts[command.split(" ")[0] ?? ""] === undefined)
    throw new Error(`${id}: package.json has no script for "${command}"`);
};

type TestsOf = (id: string) => readonly NamedTest[];

const slugOf = (group: string): string => group.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");

const renderIndex = (groups: v.InferOutput<typeof Cases>, testsOf: TestsOf): string => {
  const cases = Object.values(groups).flatMap(Object.entries<Case>);
  const untested = cases.filter(([id]) => testsOf(id).length === 0).length;
  const partial = cases.filter(([id, { gap }]) => testsOf(id).length > 0 && gap !== undefined).length;
  const sections = Object.entries(groups).map(([group, cases]) => {
    const lines = Object.entries(cases).map(([id, { text, gap }]) => {
      const files = [...new Set(testsOf(id).map(({ file }) => `\`${file}\``))];
      const [fault = ""] = text.split(" → ");
      const status = files.length === 0 ? "**not tested yet**" : gap === undefined ? "" : "**in part**, ";
      return `- ${id}, ${escapeMarkdown(fault)}: ${status}${files.join(", ")}`;
    });
    return `## [${group}](reliability/${slugOf(group)}.md)\n\n${lines.join("\n")}`;
  });
  return `# Reliability

Faults and attacks, and the tests that show that the system withstands them. Each group has a page that describes its cases. A test
that covers a case begins its name with the case's id; \`npx -y bun@1.4.5 run generate\` writes these pages from those names and from
\`scripts/generate/reliability-cases.yaml\`. Of ${cases.length} cases, ${cases.length - untested - partial} are covered. ${partial} are covered **in part**: no test runs the
whole fault, and the group's page says what is missing. ${untested} are not tested yet.

\`npx -y bun@1.4.5 run chaos -- --minutes 5 --seed 1\` injects faults into two cores, PostgreSQL, a collector and an export with its backend
under load, as the seed draws them, many two at once (\`--fault SIGSTOP\`: only those of that name; \`--minutes 0\`: each once and alone;
\`--sink nats\`: with a NATS cluster, as root). It prints its plan, recovery times and core's peak memory, and fails when an acknowledged record is
missing, stored twice or out of order, when a stored one is not exported, unless core, collector or export report that loss, or when a goal is
missed. The clock of PostgreSQL is set wrong where Debian's package \`faketime\` is installed.

${sections.join("\n\n")}
`;
};

const renderGroup = (group: string, cases: Readonly<Record<string, Case>>, testsOf: TestsOf): string => {
  const sections = Object.entries(cases).map(([id, { text, long, gap }]) => {
    const [fault = "", guarantee = ""] = text.split(" → ");
    const tests = testsOf(id).map(({ file, name }) => `- \`${file}\`: ${escapeMarkdown(name.replace(/^[^:]+: /, ""))}`);
    const more = [
      ...(long === undefined ? [] : [`Long form: \`npx -y bun@1.4.5 run ${long}\`.`]),
      ...(gap === undefined ? [] : [`**Not covered**: ${escapeMarkdown(gap)}.`]),
    ];
    return `## ${id}

When: ${escapeMarkdown(fault)}.\\
Then: ${escapeMarkdown(guarantee)}.

${[tests.length > 0 ? tests.join("\n") : "No test covers this case yet.", ...more].join("\n\n")}`;
  });
  return `# Reliability: ${group}

Generated by \`npx -y bun@1.4.5 run generate\`; [all groups](../reliability.md).

${sections.join("\n\n")}
`;
};

/** Escapes what Markdown would read as markup outside of code. */
const escapeMarkdown = (text: string): string =>
  text.replace(/(`[^`]*`)|([*_<|[\]])/g, (_, code, mark) => code ?? `\\${mark}`);

const testsByCase = (known: ReadonlySet<string>): TestsOf => {
  const byCase = new Map<string, NamedTest[]>();
  for (const test of repositoryFiles("*.test.ts", "*.test.tsx").flatMap(testsIn))
    for (const id of idsOf(test.name)) {
      if (!known.has(id)) throw new Error(`${test.file}: "${test.name}" names the case ${id}, which does not exist`);
      byCase.set(id, [...(byCase.get(id) ?? []), test]);
    }
  return (id) => byCase.get(id) ?? [];
};

/**
 * Returns the tests of a file whose name is a literal: `it("…")`, `it.each(…)("…")`, `describe`, and `through` and `withNats`, which
 * run only where the program is installed.
 */
const testsIn = (file: string): NamedTest[] => {
  const text = readFileSync(file, "utf8");
  const names: string[] = [];
  const visitor = new Visitor({
    CallExpression(call) {
      if (!/^(it|test|describe|through|withNats)\b/.test(text.slice(call.callee.start, call.callee.end))) return;
      const [first] = call.arguments;
      if (first?.type === "Literal" && typeof first.value === "string") names.push(first.value);
      if (first?.type === "TemplateLiteral") names.push(first.quasis.map(({ value }) => value.cooked ?? "").join("…"));
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
    return Array.from({ length: Number(to) - Number(from) + 1 }, (_, index) => `${letter}${Number(from) + index}`);
  });
};
