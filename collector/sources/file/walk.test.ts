import { matchesGlob } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { createSegmentMatch } from "./walk.ts";

const textOf = (...units: string[]) =>
  fc.array(fc.constantFrom(...units), { minLength: 1, maxLength: 7 }).map((all) => all.join(""));

it("matches the names that matchesGlob matches", () => {
  const segments = textOf("a", "b", ".", "*", "-", "$", "^", "|", "\n", "?", "[a]");
  const names = textOf("a", "b", ".", "-", "$", "^", "|", "\n");
  const property = fc.property(segments, names, (segment, name) => {
    fc.pre(segment !== "**" && ![".", ".."].includes(name));
    const expected = name === segment || matchesGlob(name, segment);
    expect(createSegmentMatch(segment, false)(name)).toBe(expected);
  });
  fc.assert(property, { numRuns: 2_000 });
});
