import { expect, it } from "vitest";
import type { HostStrip } from "#proto/completeness/report.ts";
import { holesOf, nextStepOf, rulesSentence, settlingText } from "./hour-view.ts";

it("L7: says when the first hour settles, or that it is due", () => {
  const at = "2026-11-23T10:15:00.000Z";
  expect(settlingText(at, "2026-11-23T09:10:00.000Z")).toBe(
    "No hour has settled yet. The first settles at 10:15 UTC.",
  );
  expect(settlingText(at, "2026-11-23T10:15:30.000Z")).toContain("was due at 10:15 UTC");
  expect(settlingText(null, at)).toContain("no host is enrolled");
});

it("lists the hours that lost records before those that are late, the largest loss first, then the newest", () => {
  const run = (state: "short" | "late", count?: number) => ({
    state,
    hours: 1,
    shortages: count === undefined ? [] : [{ kind: "missing" as const, count }],
  });
  const runs = [run("short", 310), run("late"), run("short", 4_000), run("short"), run("late")];
  const holes = holesOf({ from: "2026-11-23T00:00:00.000Z", runs } as HostStrip, ["short", "late"]);
  expect(holes.map(({ from }) => from.slice(11, 13))).toEqual(["02", "00", "03", "04", "01"]);
});

it("says which rules took how many records of hours, together", () => {
  type Hour = Parameters<typeof rulesSentence>[0][number];
  const ruled = (...rules: [rule: string, filtered: number, redacted: number][]) =>
    ({
      figures: { rules: rules.map(([rule, filtered, redacted]) => ({ rule, filtered, redacted })) },
    }) as Hour;
  const hours = [
    ruled(["no-debug", 1_300, 0], ["cards", 0, 5]),
    { figures: null },
    ruled(["cards", 2, 7]),
  ];
  expect(rulesSentence(hours)).toBe(
    "Rules in this hour: no-debug dropped 1,300, cards dropped 2, cards redacted 12.",
  );
  expect(rulesSentence([ruled(["a\u202eb", 1, 0])], "in the last 24 hours")).toMatch(
    /^Rules in the last 24 hours: a[^\u202e]+b dropped 1\.$/,
  );
  expect(rulesSentence([ruled()])).toBe("");
});

it("names the next step of hours by what they lack, each once, else by their state", () => {
  const lacking = (kind: "missing" | "lost_in_restore" | "dropped") => ({ kind, count: 1 });
  const shortages = [lacking("dropped"), lacking("missing"), lacking("missing")];
  expect(nextStepOf({ state: "short", shortages })).toBe(
    "Enlarge its queue, or find why it was slow. They are lost; the host's report names their sequences.",
  );
  const stored = [lacking("lost_in_restore")];
  expect(nextStepOf({ state: "short", shortages: stored })).toContain("--action ingest.lost");
  expect(nextStepOf({ state: "silent", shortages: [] })).toContain("Start its collector");
  expect(nextStepOf({ state: "complete", shortages: [] })).toMatch(/^All that the host accepted/);
});
