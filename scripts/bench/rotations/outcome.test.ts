import { expect, it } from "vitest";
import { readOutcome, tableOf } from "./outcome.ts";

const arrivals = new Map([
  [1, 1],
  [2, 3],
]);

it("counts lines that never arrived and lines that arrived again, and keeps each warning about the log once", () => {
  const output = [
    "info reading /logs/app.log",
    "warn sink is down",
    "warn 11:00 lines of /logs/app.log may be lost",
    "warn 11:01 lines of /logs/app.log may be lost",
  ];
  expect(readOutcome(4, arrivals, output, "/logs")).toEqual({
    written: 4,
    lost: 2,
    doubled: 1,
    told: ["warn 0:0 lines of /logs/app.log may be lost"],
  });
});

it("is a row for each history and a column for each program", () => {
  const good = { written: 4000, lost: 0, doubled: 0, told: [] };
  const bad = { written: 4000, lost: 1500, doubled: 1, told: [] };
  expect(
    tableOf({
      rename: { ours: good, theirs: bad },
      copy: { ours: good, theirs: { ...good, lost: 5, told: ["warn"] } },
    }),
  ).toBe(
    [
      "| history | lines | ours | theirs                        |",
      "| ------- | ----- | ---- | ----------------------------- |",
      "| rename  | 4,000 | -    | 1,500 lost, untold; 1 doubled |",
      "| copy    | 4,000 | -    | 5 lost, told                  |",
    ].join("\n"),
  );
});
