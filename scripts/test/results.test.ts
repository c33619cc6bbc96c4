import { expect, it } from "vitest";
import { readProgress } from "./results.ts";

const lines = (...values: unknown[]) =>
  values.map((value) => `${JSON.stringify(value)}\n`).join("");

const done = {
  file: "/a.test.ts",
  errors: [],
  tests: [{ name: "adds", state: "passed", seconds: 1, errors: [] }],
};
const begun = [
  { files: ["/a.test.ts", "/b.test.ts", "/c.test.ts"] },
  { file: "/a.test.ts", begins: "adds" },
  { file: "/b.test.ts", begins: "one" },
  { file: "/b.test.ts", begins: "two" },
];

it("hold those of the files that had ended, the test in which each other one was, and all that have not ended", () => {
  expect(readProgress(lines(...begun, done))).toEqual({
    ended: [done],
    begun: new Map([["/b.test.ts", "two"]]),
    left: ["/b.test.ts", "/c.test.ts"],
  });
});

it("are read up to a line that was cut off", () => {
  const { ended, left } = readProgress(lines(...begun, done).slice(0, -10));
  expect({ ended, left }).toEqual({
    ended: [],
    left: ["/a.test.ts", "/b.test.ts", "/c.test.ts"],
  });
});
