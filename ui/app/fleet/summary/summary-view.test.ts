import { describe, expect, it } from "vitest";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { stateRules } from "./state-rules.ts";
import {
  figureWords,
  isFigureShown,
  summaryFigures,
  toggleFigure,
  toggleState,
} from "./summary-view.ts";

const figureOf = (count: string) => {
  const figure = summaryFigures.find((each) => each.count === count);
  if (figure === undefined) throw new Error(`no figure counts ${count}`);
  return figure;
};

describe("a figure of the summary", () => {
  it("links to the rows that it counts, whatever the state, and removes its filter where they are shown", () => {
    const filter: FleetFilter = { text: ["db"], states: ["stale"] };
    const figure = figureOf("never_forwarded");
    const narrowed = toggleFigure(filter, figure);
    expect(narrowed).toEqual({ text: ["db"], forwarding: ["never"] });
    expect([isFigureShown(filter, figure), isFigureShown(narrowed ?? {}, figure)]).toEqual([
      false,
      true,
    ]);
    expect(toggleFigure(narrowed ?? {}, figure)).toEqual({ text: ["db"] });
  });

  it("has no link where the filter excludes all of its rows", () => {
    expect(toggleFigure({ forwarding: ["never"] }, figureOf("forwarding"))).toBeUndefined();
    expect(toggleFigure({ forwarding: ["never", "stopped"] }, figureOf("stopped"))).toEqual({
      forwarding: ["stopped"],
    });
  });

  it("keeps the other filters when it is the whole fleet, which is never a filter itself", () => {
    expect(toggleFigure({ text: ["db"], states: ["stale"] }, figureOf("enrolled"))).toEqual({
      text: ["db"],
    });
    expect(isFigureShown({ text: ["db"] }, figureOf("enrolled"))).toBe(false);
  });
});

it("the words of a figure call hosts enrolled where the whole fleet is counted, and matching under a filter; states do not narrow the count", () => {
  const filters: FleetFilter[] = [{}, { states: ["stale"] }, { text: ["none"] }];
  const words = filters.map((filter) => figureWords(filter, figureOf("enrolled")));
  expect(words).toEqual(["enrolled", "enrolled", "matching"]);
});

it("the chip of a state links to the hosts in its state alone, or to those in any state where they are shown", () => {
  expect(toggleState({ text: ["db"], states: ["stale", "revoked"] }, "stale")).toEqual({
    text: ["db"],
    states: ["stale"],
  });
  expect(toggleState({ text: ["db"], states: ["stale"] }, "stale")).toEqual({ text: ["db"] });
});

const thresholds = {
  heartbeat_interval_seconds: 20,
  stale_after_seconds: 60,
  forwarding_seconds: 300,
  enrolling_seconds: 900,
  cert_expiring_fraction: 0.25,
  min_version: "1.2.0",
};

it("the rules of the states cover every state, with the thresholds of the report", () => {
  const rules = stateRules(thresholds);
  expect(fleetStates.filter((state) => rules[state].length < 10)).toEqual([]);
  expect(rules.stale).toBe(
    "No heartbeat for more than 1 min, or none at all 15 min after enrollment.",
  );
  expect(rules.cert_expiring).toContain("Less than 25 % ");
  expect(rules.unsupported_version).toBe("The version is not SemVer, or below 1.2.0.");
  expect(stateRules({ ...thresholds, min_version: null }).unsupported_version).toBe(
    "The version is not SemVer.",
  );
});
