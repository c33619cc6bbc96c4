import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import {
  compareFigures,
  measureUntilSteady,
  quotientOf,
  readCommitted,
} from "./ratchet-figures.ts";

const figure = (quotient: number, unit = "cpu_ms") => ({
  unit,
  quotient,
  spread: 0.05,
  ours: quotient,
  floor: 1,
});
const committed = (quotient: number) => ({
  ...figure(quotient),
  date: "2026-11-22",
  machine: "two cores",
});

const rounds = (...values: number[]) =>
  values.map((value) => ({ spans_per_second: 1, cpu_ms: value }));

const statusOf = (now: number, unit?: string) =>
  compareFigures({ spans: committed(4) }, { spans: figure(now, unit) }).map(({ ok }) => ok);

it("divides the lowest CPU times of the rounds, so that a neighbour in some of them does not count", () => {
  expect(quotientOf({ ours: rounds(9, 4, 4.4), floor: rounds(1, 3, 1) })).toEqual({
    unit: "cpu_ms",
    quotient: 4,
    ours: 4,
    floor: 1,
    spread: 0.1,
  });
});

it("passes a rise of 15 % and fails beyond", () => {
  expect(statusOf(4.6)).toEqual([true]);
  expect(statusOf(4.61)).toEqual([false]);
});

it("measures once more before it fails, and takes the lowest of all rounds", async () => {
  const measured = [
    { ours: rounds(9, 8), floor: rounds(2, 2) },
    { ours: rounds(4, 6), floor: rounds(1, 2) },
  ];
  const limit = (most: number) => async () => {
    const left = [...measured];
    const figure = await measureUntilSteady(
      async () => left.shift() ?? { ours: [], floor: [] },
      ({ quotient }) => quotient <= most,
    );
    return { quotient: figure.quotient, left: left.length };
  };
  expect(await limit(4)()).toEqual({ quotient: 4, left: 1 });
  expect(await limit(3)()).toEqual({ quotient: 4, left: 0 });
});

it("passes whatever became cheaper", () => {
  expect(statusOf(1)).toEqual([true]);
});

it("does not compare figures of another unit", () => {
  expect(statusOf(4, "cpu_us")).toEqual([false]);
});

it("compares quotients, so that a machine twice as slow passes", () => {
  const slow = { ...figure(4), ours: 8, floor: 2 };
  expect(compareFigures({ spans: committed(4) }, { spans: slow })).toMatchObject([
    { change: 0, ok: true },
  ]);
});

it("reports work without a committed figure as such", () => {
  expect(compareFigures({}, { spans: figure(4) })).toMatchObject([
    { name: "spans", committed: null, ok: true },
  ]);
});

it("has a valid figure for each kind of work in the repository", async () => {
  const figures = readCommitted(await readFile(new URL("./ratchet.json", import.meta.url), "utf8"));
  expect(Object.keys(figures).sort()).toEqual([
    "certificates",
    "heartbeats",
    "lines",
    "rows",
    "spans",
  ]);
});

it("rejects a file with an unknown field or an impossible quotient", () => {
  expect(() => readCommitted(JSON.stringify({ spans: { ...committed(4), more: 1 } }))).toThrow();
  expect(() => readCommitted(JSON.stringify({ spans: committed(0) }))).toThrow();
});
