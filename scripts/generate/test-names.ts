import { readFileSync } from "node:fs";
import { parseSync, Visitor } from "oxc-parser";
import { repositoryFiles } from "../repository-files.ts";

/** A test as its author named it. */
export interface NamedTest {
  file: string;
  name: string;
}

/** Every test of the repository whose name is written in its call: `it("…")`, `it.each(…)("…")`, and `describe` alike. */
export const readTestNames = (): NamedTest[] =>
  repositoryFiles("*.test.ts", "*.test.tsx").flatMap((file) =>
    namesIn(file, readFileSync(file, "utf8")).map((name) => ({ file, name })),
  );

const namesIn = (file: string, text: string): string[] => {
  const names: string[] = [];
  const visitor = new Visitor({
    CallExpression(call) {
      const head = text.slice(call.callee.start, call.callee.end);
      if (!/^(it|test|describe)\b/.test(head)) return;
      const [first] = call.arguments;
      if (first?.type === "Literal" && typeof first.value === "string") names.push(first.value);
      if (first?.type === "TemplateLiteral") names.push(first.quasis.map(({ value }) => value.cooked ?? "").join("…"));
    },
  });
  visitor.visit(parseSync(file, text).program);
  return names;
};
