import { sql } from "drizzle-orm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hourMs } from "#kit/clock.ts";
import type { Rollout } from "#proto/rollout/rollout.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createRolloutLab } from "#tests/support/rollout.ts";
import { deleteOldFigures, sampleHosts } from "../store/fleet/host-hours.ts";
import { advanceRollouts } from "./core-jobs.ts";

const test = await useTestCore();
const { clock, core, db } = test;
/** Two replicas, which advance rollouts at once. */
const tick = () => Promise.all([advanceRollouts(core), advanceRollouts(core)]);
const waves = [
  { count: 20, soak_seconds: 240 },
  { percent: 100, soak_seconds: 240 },
];
const gate = { max_failed_percent: 100, states: ["not_applied"], worse_than_control: true };
const now = () => new Date(clock.now());

describe("a rollout over 40 hosts", async () => {
  const lab = await createRolloutLab(test, { count: 40, name: "host", tick });
  beforeEach(async () => {
    await lab.settle();
    await Promise.all([sampleHosts(db, now()), sampleHosts(db, now())]);
    await clock.advance(hourMs);
    await lab.fleet.beat();
  });
  afterEach(() => lab.abortAll());
  const comparisonOf = ({ waves: [first] }: Rollout) => first?.comparison;
  const measureOf = (rollout: Rollout, measure: string) =>
    comparisonOf(rollout)?.measures.find((result) => result.measure === measure);

  it("ends with a comparison of each wave that has others to compare with, and no verdict of a difference", async () => {
    const { id } = await lab.start({ waves, gate });
    const done = await lab.runUntil(id, "completed", "paused");
    expect(done.state).toBe("completed");
    expect(comparisonOf(done)).toMatchObject({ changed: 20, control: 20, unmatched: 0 });
    expect(["same", "unclear"]).toContain(comparisonOf(done)?.verdict);
    expect(measureOf(done, "memory")).toMatchObject({ verdict: "same", changed: 20, control: 20 });
    expect(measureOf(done, "cpu")).toMatchObject({ verdict: "same", changed: 20, control: 20 });
  });

  it("pauses when its hosts take more memory than unchanged ones, says so, and goes on when an operator accepts it", async () => {
    const { id } = await lab.start({ waves, gate });
    lab.fleet.react("takes_memory");
    const paused = await lab.runUntil(id, "paused", "completed");
    expect(paused).toMatchObject({
      state: "paused",
      wave: 1,
      failed: 0,
      applied: 20,
      breach: null,
    });
    expect(paused.reason?.code).toBe("worse_than_control");
    expect(paused.reason?.detail).toMatch(
      /^Wave 1: Worse: memory \+\S+ % \(\S+ to \S+\), 20 changed hosts against 20 similar unchanged ones\.$/,
    );
    expect(measureOf(paused, "memory")?.difference?.value).toBeCloseTo(0.5, 1);
    expect(await lab.eventsOf(id)).toEqual([
      "rollout.create",
      "rollout.wave_start",
      "rollout.breach",
      "rollout.pause",
    ]);
    await lab.control(id, "resume");
    lab.fleet.react("applies");
    expect(await lab.runUntil(id, "completed", "paused")).toMatchObject({
      state: "completed",
      applied: 40,
    });
  });

  it("only shows it where the gate does not ask for it", async () => {
    const { id } = await lab.start({ waves, gate: { ...gate, worse_than_control: undefined } });
    lab.fleet.react("takes_memory");
    const done = await lab.runUntil(id, "completed", "paused");
    expect(done).toMatchObject({ state: "completed", gate: { worse_than_control: false } });
    expect(comparisonOf(done)).toMatchObject({ verdict: "worse" });
    // No host is left that the last wave did not change.
    expect(done.waves[1]?.comparison).toMatchObject({
      verdict: "too_few",
      control: 0,
      unmatched: 20,
    });
    expect(await db.execute(sql`select from rollout_sample`)).toHaveLength(0);
  });

  it("counts hosts that fall silent, and compares the others without them", async () => {
    const { id } = await lab.start({ waves, gate });
    lab.fleet.react("falls_silent", ({ host }) => host.identityId.charCodeAt(35) % 2 === 0);
    const paused = await lab.runUntil(id, "paused", "completed");
    expect(paused.reason?.code).toBe("worse_than_control");
    expect(measureOf(paused, "silent")).toMatchObject({
      verdict: "worse",
      changed: 20,
      control: 20,
    });
    const { changed = 0 } = measureOf(paused, "memory") ?? {};
    expect(changed).toBeLessThan(20);
  });

  it("has no verdict on memory without figures from before, and none by a clock that went back", async () => {
    await db.execute(sql`delete from fleet_hour`);
    const { id } = await lab.start({ waves, gate });
    lab.fleet.react("takes_memory");
    const done = await lab.runUntil(id, "completed", "paused");
    expect(done.state).toBe("completed");
    expect(measureOf(done, "memory")).toMatchObject({ verdict: "too_few", difference: null });
    await db.execute(sql`insert into fleet_hour (hour, identity_id, figures)
      select ${Math.floor(clock.now() / hourMs) - 1}::int, identity_id,
        array[${clock.now() + hourMs}::bigint, 0, 0, 0, 8e7, 0] from fleet_status`);
    await lab.settle();
    const next = await lab.start({ waves, gate });
    expect(measureOf(await lab.runUntil(next.id, "completed", "paused"), "memory")).toMatchObject({
      verdict: "too_few",
    });
  });
});

it("keeps the figures of three days", async () => {
  await db.execute(sql`delete from fleet_hour`);
  const hosts = await db.execute(sql`select from fleet_status`);
  await db.execute(
    sql`update fleet_status set last_heartbeat_at = ${now().toISOString()}::timestamptz`,
  );
  expect([await sampleHosts(db, now()), await sampleHosts(db, now())]).toEqual([true, false]);
  expect(await db.execute(sql`select from fleet_hour`)).toHaveLength(hosts.length);
  expect(await deleteOldFigures(db, new Date(clock.now() + 72 * hourMs))).toBe(0);
  expect(await deleteOldFigures(db, new Date(clock.now() + 73 * hourMs))).toBe(hosts.length);
});
