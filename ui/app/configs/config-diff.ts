import { diffLines } from "diff";
import { linesOf } from "./progress-view.ts";

/** A line of a diff, or a run of unchanged lines that is left out. */
type DiffLine =
  | {
      kind: "same" | "added" | "removed";
      text: string;
      before: number | null;
      after: number | null;
    }
  | { kind: "skipped"; lines: number };

/** Unchanged lines that are shown around a change. */
const contextLines = 3;

/** Returns the lines of a diff from `before` to `after`, with three unchanged lines around each change; none for equal texts. */
export const diffOf = (before: string, after: string): DiffLine[] => {
  let beforeLine = 0;
  let afterLine = 0;
  const lines = diffLines(before, after).flatMap(({ value, added, removed }) =>
    linesOf(value).map((text): DiffLine & { text: string } => {
      if (!added) beforeLine += 1;
      if (!removed) afterLine += 1;
      const kind = removed ? "removed" : "same";
      return {
        kind: added ? "added" : kind,
        text,
        before: added ? null : beforeLine,
        after: removed ? null : afterLine,
      };
    }),
  );
  const shown = new Set(
    lines.flatMap(({ kind }, at) =>
      kind === "same"
        ? []
        : Array.from({ length: 2 * contextLines + 1 }, (_, index) => at + index - contextLines),
    ),
  );
  if (shown.size === 0) return [];
  const result: DiffLine[] = [];
  lines.forEach((line, at) => {
    const last = result.at(-1);
    if (shown.has(at)) result.push(line);
    else if (last?.kind === "skipped") last.lines += 1;
    else result.push({ kind: "skipped", lines: 1 });
  });
  return result;
};
