import { expect, it } from "vitest";
import { type ComparisonVerdict, describeComparison, type HostComparison } from "./comparison.ts";

const comparison = (verdict: ComparisonVerdict, ...measures: HostComparison["measures"]): HostComparison => ({
  ...{ at: "2026-11-26T10:00:00.000Z", verdict, matched_by: ["platform"], changed: 40, control: 80, unmatched: 0 },
  measures,
});
const memory = (verdict: ComparisonVerdict, value: number): HostComparison["measures"][number] => ({
  ...{ measure: "memory", verdict, changed: 40, control: 80 },
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
  [comparison("same"), "No difference that matters, 40 changed hosts against 80 similar unchanged ones."],
  [
    comparison("unclear"),
    "No verdict: 40 changed hosts against 80 similar unchanged ones are too few, or too different, to tell.",
  ],
  [comparison("too_few"), "No verdict: 40 changed hosts against 80 similar unchanged ones are too few."],
])("says what a comparison found: %#", (found, sentence) => expect(describeComparison(found)).toBe(sentence));
