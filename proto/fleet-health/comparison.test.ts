import { expect, it } from "vitest";
import {
  type ComparisonVerdict,
  describeComparison,
  describeVolume,
  type HostComparison,
} from "./comparison.ts";

const comparison = (
  verdict: ComparisonVerdict,
  ...measures: HostComparison["measures"]
): HostComparison => ({
  at: "2026-11-26T10:00:00.000Z",
  verdict,
  matched_by: ["platform"],
  changed: 40,
  control: 80,
  unmatched: 0,
  measures,
});
const memory = (verdict: ComparisonVerdict, value: number): HostComparison["measures"][number] => ({
  measure: "memory",
  verdict,
  changed: 40,
  control: 80,
  difference: { value, low: value - 0.05, high: value + 0.0512 },
});

it.each<[HostComparison, string]>([
  [
    comparison("worse", memory("worse", 0.231)),
    "Worse: memory +23.1 % (+18.1 to +28.2), 40 changed hosts against 80 similar unchanged ones.",
  ],
  [
    comparison("better", memory("better", -0.3)),
    "Better: memory -30 % (-35 to -24.9), 40 changed hosts against 80 similar unchanged ones.",
  ],
  [
    comparison("same"),
    "No difference that matters, 40 changed hosts against 80 similar unchanged ones.",
  ],
  [
    comparison("unclear"),
    "No verdict: 40 changed hosts against 80 similar unchanged ones are too few, or too different, to tell.",
  ],
  [
    comparison("too_few"),
    "No verdict: 40 changed hosts against 80 similar unchanged ones are too few.",
  ],
  [
    { ...comparison("too_few"), changed: 30, control: 0, unmatched: 50 },
    "No verdict: 30 changed hosts against 0 similar unchanged ones are too few, 50 have no counterpart.",
  ],
])("says what a comparison found: %#", (found, sentence) =>
  expect(describeComparison(found)).toBe(sentence),
);

it("says how much more of a signal is sent, or that too few hosts do", () => {
  const result = { signal: "logs" as const, changed: 40, control: 80 };
  expect(describeVolume({ ...result, difference: { value: 0.5, low: 0.4, high: 0.6 } })).toBe(
    "logs sent +50 % (+40 to +60)",
  );
  const difference = { value: 0.5, low: 0.4, high: 0.6 };
  expect(
    describeVolume({ ...result, difference, envelopes: { value: 0, low: -0.01, high: 0.02 } }),
  ).toBe("logs sent +50 % (+40 to +60), in envelopes 0 % (-1 to +2)");
  expect(describeVolume({ ...result, changed: 3, difference: null })).toBe(
    "logs sent: too few hosts, 3 and 80",
  );
});
