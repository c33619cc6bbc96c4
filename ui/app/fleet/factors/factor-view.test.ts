import { expect, it } from "vitest";
import type { FleetFactors } from "#proto/fleet-health/factors.ts";
import { defaultView } from "../view/view-state.ts";
import {
  comparedView,
  factorCounts,
  factorDoubt,
  factorFilter,
  nothingInCommon,
} from "./factor-view.ts";

const factors = (more: Partial<FleetFactors> = {}) => ({
  generated_at: "2026-11-23T02:41:00.000Z",
  selected: 18,
  others: 294,
  compared: 40,
  items: [],
  ...more,
});
const factor = {
  kind: "label",
  value: "region:fra1",
  selected: 17,
  others: 20,
  expected_by_chance: 0,
} as const;

it("has counts here and elsewhere, and says when it may be chance", () => {
  expect(factorCounts(factor, factors())).toBe("17 of 18 here, 20 of 294 elsewhere");
  expect(
    [0.049, 0.05, 0.999, 1, 12].map((expected_by_chance) =>
      factorDoubt({ ...factor, expected_by_chance }),
    ),
  ).toEqual(["", "may be chance", "may be chance", "probably chance", "probably chance"]);
});

it("has the filter of each kind", () => {
  expect(factorFilter(factor)).toEqual({ label: ["region:fra1"] });
  expect(factorFilter({ kind: "version", value: "1.4.0" })).toEqual({ version: ["1.4.0"] });
  expect(factorFilter({ kind: "running_config", value: "00ff" })).toEqual({
    runningConfig: ["00ff"],
  });
  expect(factorFilter({ kind: "desired_config", value: "00ff" })).toEqual({
    desiredConfig: ["00ff"],
  });
  expect(factorFilter({ kind: "drift", value: "drifted" })).toEqual({ drift: ["drifted"] });
});

it("compares the hosts of a filter, and those that need attention where there is no filter", () => {
  const stale = { ...defaultView, filter: { states: ["stale"] } } as const;
  expect(comparedView(stale)).toBe(stale);
  expect(comparedView({ ...defaultView, at: "2026-11-23T02:41Z" })).toEqual({
    ...defaultView,
    at: "2026-11-23T02:41Z",
    filter: { attention: ["needed"] },
  });
});

it("says why nothing is in common", () => {
  expect(nothingInCommon(factors({ selected: 0 }))).toBe("No host matches.");
  expect(nothingInCommon(factors({ others: 0 }))).toContain("all hosts");
  expect(nothingInCommon(factors({ selected: 1 }))).toContain("One host");
  expect(nothingInCommon(factors())).toContain("among 18 hosts");
  expect(nothingInCommon(factors({ items: [factor] }))).toBeUndefined();
});
