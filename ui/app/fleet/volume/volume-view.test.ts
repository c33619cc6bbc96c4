import { expect, it } from "vitest";
import { kindTotals, volumeBars, volumeText } from "./volume-view.ts";

const hours = [
  { from: "2026-11-22T08:00:00.000Z", kinds: [] },
  {
    from: "2026-11-22T09:00:00.000Z",
    kinds: [
      { kind: "otel_span" as const, envelopes: 1, payload_bytes: 10 },
      { kind: "log_line" as const, envelopes: 4, payload_bytes: 2048 },
    ],
  },
  {
    from: "2026-11-22T10:00:00.000Z",
    kinds: [{ kind: "log_line" as const, envelopes: 2, payload_bytes: 2048 }],
  },
];

it("sums each kind over the hours", () => {
  const totals = kindTotals({ hours });
  expect(totals).toEqual([
    { kind: "otel_span", envelopes: 1, bytes: 10 },
    { kind: "log_line", envelopes: 6, bytes: 4096 },
  ]);
  expect(totals.map(volumeText)).toEqual(["1 envelope, 10 B", "6 envelopes, 4 KiB"]);
});

it("has a bar for every hour, with its kinds in words", () => {
  expect(volumeBars({ hours }, "utc")).toEqual([
    { value: 0, name: "From 2026-11-22 08:00:00 UTC: nothing" },
    {
      value: 5,
      name: "From 2026-11-22 09:00:00 UTC: 1 envelope of spans, 4 envelopes of log lines",
    },
    { value: 2, name: "From 2026-11-22 10:00:00 UTC: 2 envelopes of log lines" },
  ]);
});
