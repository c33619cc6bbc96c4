import { describe, expect, it } from "vitest";
import type { Rollout, RolloutWave } from "#proto/rollout/rollout.ts";
import { rolloutStates } from "#proto/rollout/vocabulary.ts";
import {
  breachSentence,
  commandsOf,
  gateSentence,
  reachOf,
  rolloutSentence,
  targetsPath,
  waveSentence,
} from "./rollout-view.ts";

const id = "01920000-0000-7000-b300-000000000001";
const none = { pending: 0, assigned: 0, applied: 0, failed: 0, skipped: 0, reverted: 0 };
const wave = (number: number, change: Partial<RolloutWave> = {}) => ({
  number,
  percent: 50,
  count: null,
  soak_seconds: 600,
  targets: 4,
  ...none,
  started_at: null,
  soak_until: null,
  completed_at: null,
  ...change,
});
const rollout = (change: Partial<Rollout>): Rollout => ({
  id,
  config: { id, name: "web", config_hash: "f8b4c0" },
  filter: "",
  state: "running",
  reason: null,
  wave: 1,
  waves: [wave(1), wave(2)],
  gate: { max_failed_percent: 5, states: ["stale", "not_applied"], worse_than_control: false },
  on_breach: "pause",
  targets: 8,
  ...none,
  applied: 3,
  created_by: id,
  created_by_name: "ada@example.test",
  created_at: "2026-11-20T10:00:00.000Z",
  updated_at: "2026-11-20T10:00:00.000Z",
  ended_at: null,
  breach: null,
  ...change,
});
const ended = { ended_at: "2026-11-20T12:00:00.000Z" };

describe("a rollout in words", () => {
  it.each<[Partial<Rollout>, string]>([
    [{}, "Running wave 1 of 2: 3 of 8 hosts applied the config."],
    [
      { state: "soaking", waves: [wave(1, { soak_until: "2026-11-20T11:00:00.000Z" }), wave(2)] },
      "Soaking in wave 1 of 2 until 2026-11-20 11:00:00 UTC: 3 of 8 hosts applied the config.",
    ],
    [
      { state: "paused", reason: { code: "gate_breached", detail: null } },
      "Paused in wave 1 of 2 by the gate: 3 of 8 hosts applied the config.",
    ],
    [
      { state: "paused", reason: { code: "operator", detail: "lunch" } },
      "Paused in wave 1 of 2 by an operator: lunch: 3 of 8 hosts applied the config.",
    ],
    [
      { state: "paused", reason: { code: "database_restored", detail: null } },
      "Paused in wave 1 of 2 by a restore of the database: 3 of 8 hosts applied the config.",
    ],
    [
      { state: "rolling_back", reason: { code: "gate_breached", detail: null }, reverted: 1 },
      "Rolling back in wave 1 of 2 by the gate: 1 host reverted.",
    ],
    [
      {
        ...ended,
        state: "rolled_back",
        reason: { code: "gate_breached", detail: null },
        reverted: 25,
        reverted_failed: 22,
      },
      "Rolled back at 2026-11-20 12:00:00 UTC by the gate: 25 hosts reverted, 22 of them had failed.",
    ],
    [
      { ...ended, state: "rolled_back", reason: { code: "operator", detail: null }, reverted: 3 },
      "Rolled back at 2026-11-20 12:00:00 UTC by an operator: 3 hosts reverted.",
    ],
    [
      { ...ended, state: "aborted" },
      "Aborted at 2026-11-20 12:00:00 UTC: 3 of 8 hosts applied the config.",
    ],
    [
      { ...ended, state: "completed" },
      "Completed at 2026-11-20 12:00:00 UTC: 3 of 8 hosts applied the config.",
    ],
  ])("says where it is, %#", (change, sentence) =>
    expect(rolloutSentence(rollout(change), "utc")).toBe(sentence),
  );

  it("says what a wave reaches and where it is", () => {
    expect([reachOf(wave(1)), reachOf({ percent: null, count: 1 })]).toEqual(["50 %", "1 host"]);
    const started_at = "2026-11-20T10:00:00.000Z";
    expect([
      waveSentence(wave(1), "running", "utc"),
      waveSentence(wave(1), "aborted", "utc"),
      waveSentence(wave(1, { started_at }), "running", "utc"),
      waveSentence(
        wave(1, { started_at, soak_until: "2026-11-20T10:20:00.000Z" }),
        "soaking",
        "utc",
      ),
      waveSentence(
        wave(1, { started_at, completed_at: "2026-11-20T10:30:00.000Z" }),
        "paused",
        "utc",
      ),
    ]).toEqual([
      "Waiting",
      "Not started",
      "Started at 2026-11-20 10:00:00 UTC",
      "Soaking until 2026-11-20 10:20:00 UTC",
      "Completed at 2026-11-20 10:30:00 UTC",
    ]);
  });

  it("says what the gate allows, and what exceeded it", () => {
    expect(gateSentence(rollout({}))).toBe(
      "At most 5 % of a wave's hosts may fail (stale, config not applied); otherwise the rollout pauses.",
    );
    const breach = {
      wave: 1,
      failed: 1,
      failed_percent: 33.333,
      at: "2026-11-20T10:10:00.000Z",
      evidence: [],
    };
    expect(breachSentence(rollout({ breach }))).toBe(
      "In wave 1, 1 host failed: 33.3 % of the wave, and the gate allows 5 %.",
    );
  });
});

it("names the commands that its state allows", () => {
  const verbs = (state: Rollout["state"]) =>
    commandsOf({ id, state }).map(({ command }) => /^svc-admin rollouts (\S+) /.exec(command)?.[1]);
  expect(Object.fromEntries(rolloutStates.map((state) => [state, verbs(state)]))).toEqual({
    running: ["pause", "abort", "roll-back"],
    soaking: ["pause", "abort", "roll-back"],
    paused: ["resume", "abort", "roll-back"],
    aborted: ["roll-back"],
    rolling_back: [],
    rolled_back: [],
    completed: [],
  });
});

it.each([
  [{}, ""],
  [{ wave: 2 }, "?wave=2"],
  [{ wave: 2, status: "failed" as const }, "?wave=2&status=failed"],
])("has the filter of a rollout's hosts in the address: %j", (view, search) => {
  expect(targetsPath(id, view)).toBe(`/changes/rollouts/${id}${search}#targets`);
});
