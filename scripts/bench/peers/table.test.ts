import { expect, it } from "vitest";
import { formatPair } from "./table.ts";

it("formats a row for each side, with three digits, units, quotients and guarantees", () => {
  const results = [
    {
      side: { name: "we", kind: "ours" as const, guarantees: "synced" },
      figures: { cpu_ms: 4.1649, spans_per_second: 213_980.4, peak_mb: 173.2, cpu_percent: 0.27 },
      rounds: [],
      oursDividedBy: {},
      spread: 0,
      killed: { acknowledged: 400_000, lost: 0 },
    },
    {
      side: { name: "a loop", kind: "floor" as const, guarantees: "in memory" },
      figures: { cpu_ms: 16.1, ready_s: 0.02 },
      rounds: [],
      oursDividedBy: { cpu_ms: 0.2587 },
      spread: 0.05,
      killed: null,
    },
  ];
  expect(formatPair("1,000 spans", results)).toBe(
    [
      "| 1,000 spans | we | CPU 4.16 ms, spans 214,000/s, peak 173 MB, CPU 0.27 % |  | synced; lost 0 of 400,000 |",
      "| 1,000 spans | floor: a loop | CPU 16.1 ms, ready 0.02 s | CPU 0.259 | in memory |",
    ].join("\n"),
  );
});
