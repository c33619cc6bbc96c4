import { reliabilityCases } from "./reliability-cases.ts";
import { type NamedTest, readTestNames } from "./test-names.ts";

/** The ids at the head of a name: `E1: …`, `E1, E3: …`, `H1 to H3: …`. */
export const idsOf = (name: string): string[] => {
  const head = /^((?:[A-Z]\d{1,2}(?:, | and | to |\/)?)+):/.exec(name)?.[1];
  if (head === undefined) return [];
  return head.split(/, | and |\//).flatMap((part) => {
    const range = /^([A-Z])(\d+) to \1(\d+)$/.exec(part);
    if (!range) return [part];
    const [, letter = "", from = 0, to = 0] = range;
    return Array.from({ length: Number(to) - Number(from) + 1 }, (_, index) => `${letter}${Number(from) + index}`);
  });
};

/** Throws when a test names a case that does not exist. */
const testsByCase = (tests: readonly NamedTest[]): Map<string, NamedTest[]> => {
  const known = new Set(Object.values(reliabilityCases).flatMap((cases) => cases.map(({ id }) => id)));
  const byCase = new Map<string, NamedTest[]>();
  for (const test of tests)
    for (const id of idsOf(test.name)) {
      if (!known.has(id)) throw new Error(`${test.file}: "${test.name}" names the case ${id}, which does not exist`);
      byCase.set(id, [...(byCase.get(id) ?? []), test]);
    }
  return byCase;
};

const cell = (text: string): string => text.replace(/\|/g, "\\|");

/** `docs/reliability.md`: each fault and attack, and the tests that cover it. */
export const renderReliabilityPage = (): string => {
  const covered = testsByCase(readTestNames());
  const sections = Object.entries(reliabilityCases).map(([area, cases]) => {
    const rows = cases
      .filter(({ id }) => covered.has(id))
      .map(({ id, happens, holds }) => {
        const tests = (covered.get(id) ?? []).map(({ file, name }) => `\`${file}\`: ${name.replace(/^[^:]+: /, "")}`);
        return `| ${id} | ${cell(holds === "" ? happens : `${happens} → ${holds}`)} | ${cell(tests.join("<br>"))} |`;
      });
    const open = cases.filter(({ id }) => !covered.has(id)).map(({ id, happens }) => `${id} (${happens})`);
    const head = "| case | what happens → what must hold | tests |\n|---|---|---|";
    const table = rows.length > 0 ? `\n${head}\n${rows.join("\n")}\n` : "";
    const rest = open.length > 0 ? `\nNot covered by a test yet: ${open.join("; ")}.\n` : "";
    return `## ${area}\n${table}${rest}`;
  });
  return `# Reliability

The faults and attacks that the system must withstand, and the tests that cover them. A test that covers a case begins its name with
the case's id; this page is generated from those names by \`bun run generate\`.

${sections.join("\n")}`;
};
