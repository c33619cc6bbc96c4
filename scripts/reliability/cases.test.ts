import { expect, it } from "vitest";
import { caseFaults, type ReliabilityCase, readReliability, renderCase } from "./cases.ts";

const covered = {
  group: "Queue",
  id: "Q1",
  text: "a disk fills → nothing is lost",
  tests: [{ file: "a.test.ts", name: "Q1: keeps what it has" }],
};
const faultsOf = (changed: Partial<ReliabilityCase>, names: string[] = []) =>
  caseFaults(
    [{ ...covered, ...changed }],
    names.map((name) => ({ file: "a.test.ts", name })),
    new Set(["chaos"]),
  );

it("need a test, or a gap that says what no test runs", () => {
  expect(faultsOf({})).toEqual([]);
  expect(faultsOf({ tests: [] })).toEqual(["Q1: no test names it, and it has no gap"]);
  expect(faultsOf({ tests: [], gap: "nothing runs it" })).toEqual([]);
});

it("are known to every test that names one, alone, in a list or in a range", () => {
  expect(faultsOf({}, ["Q1: keeps", "keeps Q2: too"])).toEqual([]);
  expect(faultsOf({}, ["Q1 and Q2: keeps"])).toEqual([
    expect.stringContaining("names the case Q2"),
  ]);
  expect(faultsOf({}, ["Q1 to Q3: keeps"])).toHaveLength(2);
});

it("name a command of package.json as their long form", () => {
  expect(faultsOf({ long: "chaos -- --minutes 5" })).toEqual([]);
  expect(faultsOf({ long: "havoc" })).toEqual([expect.stringContaining('no script for "havoc"')]);
});

it("are printed with what must hold, their tests and what none covers", () => {
  expect(renderCase({ ...covered, gap: "a second disk" })).toBe(
    "Q1: a disk fills → nothing is lost\n  a.test.ts: keeps what it has\n  not covered: a second disk",
  );
});

it("are those of the repository, without a fault", () => {
  const { cases, faults } = readReliability();
  expect(faults).toEqual([]);
  expect(cases.find(({ id }) => id === "E1")?.tests.length).toBeGreaterThan(1);
  expect(cases.length).toBeGreaterThan(100);
});
