import fc from "fast-check";
import { expect, it } from "vitest";
import { diffOf } from "./config-diff.ts";
import { linesOf } from "./progress-view.ts";

it("has the lines of both, in order, and numbers them as they stand in each", () => {
  const text = fc
    .array(fc.constantFrom("a: 1", "b: 2", "  c: 3", "", "# d"), { maxLength: 30 })
    .map((lines) => lines.join("\n"));
  fc.assert(
    fc.property(text, text, (before, after) => {
      for (const line of diffOf(before, after)) {
        if (line.kind === "skipped") continue;
        if (line.before !== null) expect(linesOf(before)[line.before - 1]).toBe(line.text);
        if (line.after !== null) expect(linesOf(after)[line.after - 1]).toBe(line.text);
      }
    }),
  );
});

it("leaves out what is far from a change, and is empty for equal texts", () => {
  const lines = Array.from({ length: 20 }, (_, at) => `line-${at + 1}: ${at}`);
  const changed = lines.with(9, "line-10: changed");
  const diff = diffOf(lines.join("\n"), changed.join("\n"));
  expect(
    diff.map((line) =>
      line.kind === "skipped" ? `… ${line.lines}` : `${line.kind} ${line.before} ${line.after}`,
    ),
  ).toEqual([
    "… 6",
    "same 7 7",
    "same 8 8",
    "same 9 9",
    "removed 10 null",
    "added null 10",
    "same 11 11",
    "same 12 12",
    "same 13 13",
    "… 7",
  ]);
  expect(diffOf("a\n", "a\n")).toEqual([]);
});
