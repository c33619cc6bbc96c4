import { expect, it } from "vitest";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { isSlow } from "#tests/support/is-slow.ts";
import { runChaos } from "./chaos.ts";
import { areApart } from "./fault.ts";
import { faults } from "./faults.ts";
import { brokenGoals, faultOf } from "./goals.ts";
import { planRounds } from "./plan.ts";

it("plans by the seed alone each fault once a round, and none beside another that touches the same", () => {
  const names = Object.keys(faults);
  const planOf = (seed: number) => [...planRounds(names, createSeededEntropy(seed), true).take(3)];
  expect(planOf(1)).toEqual(planOf(1));
  expect(planOf(1)).not.toEqual(planOf(2));
  for (const round of planOf(1)) {
    const steps = round.map((step) =>
      step.flatMap((part) => (part === undefined ? [] : [part.fault])),
    );
    expect(steps.flat().sort()).toEqual(names.toSorted());
    const pairs = steps
      .filter(([, second]) => second !== undefined)
      .map((step) => step.map(faultOf));
    expect(pairs.length).toBeGreaterThan(3);
    expect(pairs.every(([one, other]) => one && other && areApart(one, other))).toBe(true);
  }
});

it("allows the export one repeat for each time that a fault stops its server: twice where a backup is taken and restored", () => {
  const measured = {
    draws: [],
    at_seconds: 0,
    lasted_ms: 0,
    ack_ms: 1,
    ready_ms: 1,
    export_ms: 1,
    pause_ms: 0,
  };
  const goalsOf = (fault: string, times: number) => {
    const repeats = { export_repeats: 1, export_repeated_bytes: 100, export_times_max: times };
    const report = {
      ...measured,
      ...repeats,
      fault,
      id: faultOf(fault).id,
      core_peak_mb: 100,
    };
    return brokenGoals(fault, [report]);
  };
  const restore = "restore the database from a backup";
  expect(goalsOf(restore, 3)).toEqual([]);
  expect(goalsOf(restore, 4)).toEqual([`${restore}: the export sent an item 4 times, at most 3`]);
  const restart = "restart PostgreSQL (immediate)";
  expect(goalsOf(restart, 2)).toEqual([]);
  expect(goalsOf(restart, 3)).toEqual([`${restart}: the export sent an item 3 times, at most 2`]);
});

it("D1, D2, D5, G5, Q11, Q12: keeps or reports everything acknowledged when PostgreSQL restarts, fails over, is restored and has no connection left, when core and collector are killed, and when queues are restored and copied", {
  // 24 s alone, and up to ten times as long beside the whole suite; its goals are judged by the machine's pace.
  timeout: 400_000,
}, async () => {
  const killed = [
    "restart PostgreSQL (immediate)",
    "kill core (SIGKILL)",
    "kill the collector (SIGKILL)",
  ];
  const restored = ["restore a copy of a queue", "restore the database from a backup"];
  const timed = ["fail over to a standby", "use up the connections of PostgreSQL"];
  const names = [...killed, "run a copy of a queue"];
  if (isSlow) names.push(...restored, ...timed);
  const report = await runChaos({ seed: 1, minutes: 0, names, recordsPerSecond: 60 });
  expect(report).toMatchObject({
    missing: 0,
    duplicates: 0,
    disordered: 0,
    not_exported: 0,
    export_invented: 0,
  });
  expect(report.faults.map(({ fault }) => fault).sort()).toEqual(names.toSorted());
  expect(report.faults.every(({ ack_ms: ack, error }) => ack !== null && error === undefined)).toBe(
    true,
  );
  expect(report.acked).toBeGreaterThan(100);
  expect(report.forks).toBeGreaterThanOrEqual(isSlow ? 2 : 1);
  expect(report.event_faults).toEqual([]);
  expect(report.account_faults).toEqual([]);
  expect(report.ended).toEqual([]);
  if (!isSlow) return;
  expect(report.lost_reported).toBeGreaterThan(0);
  expect(report.accounts_lost).toBeGreaterThan(0);
  // Within 5 s, among others, where a killed core starts within 2 s; a machine that takes longer for the one may for the other.
  const [start] = report.faults.filter(({ fault }) => fault === "kill core (SIGKILL)");
  const slowness = Math.max(1, (start?.lasted_ms ?? 0) / 2_000);
  const paced = report.faults.map((fault) => ({
    ...fault,
    ack_ms: fault.ack_ms && fault.ack_ms / slowness,
    ready_ms: fault.ready_ms && fault.ready_ms / slowness,
  }));
  expect(timed.flatMap((name) => brokenGoals(name, paced))).toEqual([]);
});
