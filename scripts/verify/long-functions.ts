import { type Program, Visitor } from "oxc-parser";

/** A function with too many lines of code; neither blank lines nor comments count. */
export interface LongFunction {
  /** Its first line, from 1. */
  line: number;
  /** Its lines without those of functions inside, which count as one each. */
  own: number;
  total: number;
}

const ownMax = 50;
const totalMax = 150;

/** Returns the functions with more than 50 lines of their own, or 150 with those inside; `code` is the text without comments. */
export const findLongFunctions = (program: Program, code: string): LongFunction[] => {
  const lines = code.split("\n");
  const linesBefore = countsBefore(lines);
  const offsets = offsetsOf(lines);
  const found: LongFunction[] = [];
  const open: { line: number; inside: number }[] = [];
  const enter = ({ start }: { start: number }) =>
    open.push({ line: lineAt(offsets, start), inside: 0 });
  const leave = ({ end }: { end: number }) => {
    const entered = open.pop();
    if (!entered) return;
    const total = (linesBefore[lineAt(offsets, end) + 1] ?? 0) - (linesBefore[entered.line] ?? 0);
    const own = total - entered.inside;
    const outer = open.at(-1);
    if (outer) outer.inside += total - 1;
    if (own > ownMax || total > totalMax) found.push({ line: entered.line + 1, own, total });
  };
  new Visitor({
    FunctionDeclaration: enter,
    FunctionExpression: enter,
    ArrowFunctionExpression: enter,
    "FunctionDeclaration:exit": leave,
    "FunctionExpression:exit": leave,
    "ArrowFunctionExpression:exit": leave,
  }).visit(program);
  return found;
};

/** The number of lines of code before each line, and behind the last one. */
const countsBefore = (lines: readonly string[]): number[] => {
  const counts = [0];
  for (const line of lines) counts.push((counts.at(-1) ?? 0) + (/\S/.test(line) ? 1 : 0));
  return counts;
};

const offsetsOf = (lines: readonly string[]): number[] => {
  const offsets = [0];
  for (const line of lines) offsets.push((offsets.at(-1) ?? 0) + line.length + 1);
  return offsets;
};

/** The line, from 0, that holds an offset. */
const lineAt = (offsets: readonly number[], offset: number): number =>
  offsets.findLastIndex((start) => start <= offset);
