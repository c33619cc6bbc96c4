import { expect, it } from "vitest";
import { benchGoals, judgeGoals } from "./goals.ts";

const met = { p50_ms: 499, p99_ms: 1_999 };

it("are met together", () => {
  expect(judgeGoals("assigned", met)).toMatchObject({ ok: true, goal: 500 });
});

it.each(Object.keys(met))("are missed when %s is", (name) => {
  const judged = judgeGoals("assigned", { ...met, [name]: 1e9 });
  expect(judged.ok).toBe(false);
  expect(judged.goals[name]).toMatchObject({ figure: 1e9, met: false });
});

it("are missed by what is no number", () => {
  expect(judgeGoals("assigned", { ...met, p99_ms: Number.NaN }).ok).toBe(false);
});

it("say what was not judged, and are never met by nothing", () => {
  expect(judgeGoals("ratchet", { rise: null })).toMatchObject({
    ok: false,
    goals: { rise: { met: "not judged" } },
  });
  expect(judgeGoals("assigned", { ...met, p99_ms: null }).ok).toBe(true);
});

it("include their bounds, unless they are below", () => {
  expect(judgeGoals("ratchet", { rise: 0.15 }).ok).toBe(true);
  expect(judgeGoals("assigned", { ...met, p50_ms: 500 }).ok).toBe(false);
});

it("say in at most twelve words what they measure", () => {
  const all = Object.values(benchGoals).flatMap((goals) => Object.values(goals));
  for (const { what } of all) expect(what.split(" ").length).toBeLessThanOrEqual(12);
});
