import { expect, it } from "vitest";
import { nextStepOf, settlingText } from "./hour-view.ts";

it("L7: says when the first hour settles, or that it is due", () => {
  const at = "2026-11-23T10:15:00.000Z";
  expect(settlingText(at, "2026-11-23T09:10:00.000Z")).toBe(
    "No hour has settled yet. The first settles at 10:15 UTC.",
  );
  expect(settlingText(at, "2026-11-23T10:15:30.000Z")).toContain("was due at 10:15 UTC");
  expect(settlingText(null, at)).toContain("no host is enrolled");
});

it("names the next step of hours by what they lack, each once, else by their state", () => {
  const lacking = (kind: "missing" | "lost_in_restore" | "dropped") => ({ kind, count: 1 });
  const shortages = [lacking("dropped"), lacking("missing"), lacking("lost_in_restore")];
  expect(nextStepOf({ state: "short", shortages })).toBe(
    "Enlarge its queue, or find why it was slow. They are lost; its account names their sequences.",
  );
  expect(nextStepOf({ state: "silent", shortages: [] })).toContain("Start its collector");
  expect(nextStepOf({ state: "complete", shortages: [] })).toMatch(/^All that the host accepted/);
});
