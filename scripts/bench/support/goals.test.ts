import { describe, expect, it } from "vitest";
import { benchGoals, judgeGoals } from "./goals.ts";

describe("the goals of a bench", () => {
  const met = { first_token_ms: 149, ack_ratio: 1.9, failed: 0 };

  it("are met together", () => {
    expect(judgeGoals("chat", met)).toMatchObject({ ok: true, goal: 150 });
  });

  it.each(Object.keys(met))("are missed when %s is", (name) => {
    const judged = judgeGoals("chat", { ...met, [name]: 1e9 });
    expect(judged.ok).toBe(false);
    expect(judged.goals[name]).toMatchObject({ figure: 1e9, met: false });
  });

  it("are missed by what is no number", () => {
    expect(judgeGoals("chat", { ...met, ack_ratio: Number.NaN }).ok).toBe(false);
  });

  it("say what was not judged, and are never met by nothing", () => {
    expect(judgeGoals("ratchet", { rise: null })).toMatchObject({
      ok: false,
      goals: { rise: { met: "not judged" } },
    });
    expect(judgeGoals("chat", { ...met, failed: null }).ok).toBe(true);
  });

  it("include their bounds, unless they are below", () => {
    expect(judgeGoals("ratchet", { rise: 0.15 }).ok).toBe(true);
    expect(judgeGoals("chat", { ...met, first_token_ms: 150 }).ok).toBe(false);
  });

  it("say in at most twelve words what they measure", () => {
    const all = Object.values(benchGoals).flatMap((goals) => Object.values(goals));
    for (const { what } of all) expect(what.split(" ").length).toBeLessThanOrEqual(12);
  });
});
