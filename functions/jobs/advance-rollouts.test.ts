import { sql } from "drizzle-orm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { NowReport } from "#proto/now/report.ts";
import { useTestCore } from "#tests/support/core.ts";
import { isSlow } from "#tests/support/is-slow.ts";
import { createRolloutLab, publishTestConfig } from "#tests/support/rollout.ts";
import { holdAccess } from "../domain/directory/restored.ts";
import { confirmAccess } from "../domain/scim/confirm-access.ts";
import type { Database } from "../store/database/database.ts";
import { advanceRollouts, correctTimes } from "./core-jobs.ts";

const test = await useTestCore();
const { admin, clock, core, db } = test;
const tick = () => advanceRollouts(core);
const soak_seconds = 60;

describe("a rollout over 20 hosts", async () => {
  const lab = await createRolloutLab(test, { count: 20, name: "some", tick });
  const { start, runUntil, targetsOf, eventsOf, assignmentsOf } = lab;
  let before: string;
  beforeEach(async () => {
    before = await lab.settle();
  });
  afterEach(() => lab.abortAll());
  const soakMs = 150_000;
  const waves = [
    { percent: 20, soak_seconds: soakMs / 1000 },
    { count: 8, soak_seconds },
    { percent: 100, soak_seconds },
  ];

  it("reaches all of them, and no wave starts before the one before has soaked", async () => {
    const { id, config } = await start({ waves });
    const done = await runUntil(id, "completed");
    expect(done).toMatchObject({
      targets: 20,
      applied: 20,
      failed: 0,
      assigned: 0,
      breach: null,
      reason: null,
    });
    expect(done.waves.map(({ targets }) => targets)).toEqual([4, 4, 12]);
    done.waves.forEach((wave, index) => {
      const next = done.waves[index + 1];
      const startedAt = Date.parse(wave.started_at ?? "");
      const soakUntil = Date.parse(wave.soak_until ?? "");
      expect(soakUntil).toBeGreaterThanOrEqual(
        startedAt + (index === 0 ? soakMs : soak_seconds * 1000),
      );
      expect(Date.parse(wave.completed_at ?? "")).toBeGreaterThanOrEqual(soakUntil);
      if (next) expect(Date.parse(next.started_at ?? "")).toBeGreaterThanOrEqual(soakUntil);
    });
    expect(lab.fleet.hosts.every(({ running }) => running === config.config_hash)).toBe(true);
    expect(await assignmentsOf(config.id)).toEqual([[1, 20]]);
    expect(await eventsOf(id)).toEqual([
      "rollout.create",
      ...Array(3).fill("rollout.wave_start"),
      "rollout.complete",
    ]);
  });

  it("pauses when more hosts of a wave fail than the gate allows, with evidence, and assigns no other host", async () => {
    const { id, config } = await start({ waves });
    lab.fleet.react("rolls_back");
    const paused = await runUntil(id, "paused");
    expect(paused).toMatchObject({
      wave: 1,
      pending: 16,
      failed: 4,
      reason: {
        code: "gate_breached",
        detail: "4 of 4 hosts of wave 1 failed (100 %, allowed 5 %)",
      },
      breach: { wave: 1, failed: 4, failed_percent: 100 },
    });
    expect(paused.breach?.evidence).toHaveLength(4);
    await tick();
    expect(await assignmentsOf(config.id)).toEqual([[1, 4]]);
    expect((await eventsOf(id)).slice(-2)).toEqual(["rollout.breach", "rollout.pause"]);
  });

  it("rolls back by itself to what each host had before, except where somebody else has assigned another config", async () => {
    const { id, config } = await start({ waves, on_breach: "roll_back" });
    await tick();
    const assigned = (await targetsOf(id, "&status=assigned")).map(
      ({ identity_id }) => identity_id,
    );
    expect(assigned).toHaveLength(4);
    const [taken = "", cleared = "", ...rest] = assigned;
    const other = await publishTestConfig(test, 7);
    await admin.put(`/v1/collector/identities/${taken}/desired-config`, { config_id: other });
    await admin.delete(`/v1/collector/identities/${cleared}/desired-config`);
    lab.fleet.react("rolls_back");
    const done = await runUntil(id, "rolled_back");
    expect(done).toMatchObject({ reverted: 2, skipped: 2, pending: 16, failed: 0, applied: 0 });
    // That they were failed is not forgotten with their status.
    expect([done.reverted_failed, done.waves.map((wave) => wave.reverted_failed)]).toEqual([
      2,
      [2, 0, 0],
    ]);
    expect(await desiredOf(rest)).toEqual([before]);
    expect([await desiredOf([taken]), await desiredOf([cleared])]).toEqual([[other], [null]]);
    expect((await targetsOf(id, "&status=skipped")).map(({ reason }) => reason)).toEqual([
      "reassigned",
      "reassigned",
    ]);
    expect(await assignmentsOf(config.id)).toEqual([[1, 4]]);
    expect((await eventsOf(id)).slice(-3)).toEqual([
      "rollout.breach",
      "rollout.roll_back",
      "rollout.rolled_back",
    ]);
  });

  it("takes each step once when two cores run the job", async () => {
    const { id, config } = await start({ waves });
    const others = [
      core,
      { ...core, db: test.database.connect().db },
      { ...core, db: test.database.connect().db },
    ];
    const both = await createTwoTicks(others);
    for (let minutes = 0; minutes < 20 && (await lab.get(id)).state !== "completed"; minutes += 1) {
      await both();
      await lab.fleet.beat();
    }
    expect(await lab.get(id)).toMatchObject({ state: "completed", applied: 20 });
    expect(await assignmentsOf(config.id)).toEqual([[1, 20]]);
    expect(await eventsOf(id)).toEqual([
      "rollout.create",
      ...Array(3).fill("rollout.wave_start"),
      "rollout.complete",
    ]);
  });
});

it("a rollout of more hosts than a batch resumes where core was killed, at any statement of the job, and assigns no host twice", async () => {
  const lab = await createRolloutLab(test, { count: 220, name: "many", tick });
  await lab.fleet.beat();
  const { id, config } = await lab.start({ waves: [{ percent: 100, soak_seconds: 0 }] });
  for (let statements = 1; ; statements += isSlow ? 1 : 3) {
    const killed = await advanceRollouts({ ...core, db: killedAfter(db, statements) }).catch(
      () => "killed",
    );
    const { pending, assigned } = await lab.get(id);
    expect(pending + assigned).toBe(220);
    if (killed !== "killed") break;
  }
  await lab.runUntil(id, "completed");
  expect(await lab.assignmentsOf(config.id)).toEqual([[1, 220]]);
  expect(await lab.eventsOf(id)).toEqual([
    "rollout.create",
    "rollout.wave_start",
    "rollout.complete",
  ]);
});

/** Runs the job of several cores at once, several times. */
const createTwoTicks =
  async (cores: readonly Parameters<typeof advanceRollouts>[0][]) => async () => {
    for (let times = 0; times < 3; times += 1)
      await Promise.all(cores.map((each) => advanceRollouts(each)));
  };

/** A database that loses its connection after a number of statements in transactions. */
const killedAfter = (database: Database, statements: number) => {
  let left = statements;
  const killed = <Tx extends object>(tx: Tx) =>
    new Proxy(tx, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          left -= 1;
          if (left < 0) throw new Error("killed");
          return value.apply(target, args);
        };
      },
    });
  return new Proxy(database, {
    get: (target, name) =>
      name === "transaction"
        ? (work: (tx: object) => Promise<unknown>) => target.transaction((tx) => work(killed(tx)))
        : Reflect.get(target, name, target),
  });
};

const desiredOf = async (identityIds: readonly string[]) => {
  const rows = await db.execute<{ config_id: string | null }>(sql`
    select distinct config_id from unnest(${`{${identityIds.join(",")}}`}::uuid[]) wanted
    left join config_assignment a on a.identity_id = wanted and a.ended_at is null`);
  return rows.map(({ config_id }) => config_id);
};

describe("a rollout", async () => {
  const lab = await createRolloutLab(test, { count: 10, name: "few", tick });
  const { start, runUntil, targetsOf, control, get } = lab;
  beforeEach(() => lab.settle());
  afterEach(() => lab.abortAll());
  const waves = [
    { count: 4, soak_seconds },
    { percent: 100, soak_seconds },
  ];
  /** Lets the config fail on one host of the first wave. */
  const failFirst = async (id: string) => {
    const [bad] = await targetsOf(id, "&wave=1");
    lab.fleet.react("rolls_back", ({ host }) => host.identityId === bad?.identity_id);
    return bad?.identity_id;
  };

  it("is spread: another rollout to the same hosts has others in its first wave", async () => {
    const firstOf = async () => {
      const { id } = await start({ waves });
      const ids = (await targetsOf(id, "&wave=1")).map(({ identity_id }) => identity_id);
      expect((await targetsOf(id, "&wave=1")).map(({ identity_id }) => identity_id)).toEqual(ids);
      await control(id, "abort");
      return ids;
    };
    expect(await firstOf()).not.toEqual(await firstOf());
  });

  it.each([
    ["rolls_back", "rolled_back", "rolled back: source file cannot start"],
    ["rejects", "config_invalid", "sources.0: is not allowed here"],
    ["fills_its_queue", "queue_at_risk", "the queue holds 4096 of 104857600 bytes"],
    ["falls_silent", "stale", "last heartbeat at"],
    ["ignores", "not_applied", "600 s after the assignment"],
  ] as const)(
    "finds that a host which %s is %s, and since when",
    async (reaction, condition, detail) => {
      const { id } = await start({ waves });
      lab.fleet.react(reaction);
      const { breach } = await runUntil(id, "paused");
      const [evidence] = breach?.evidence ?? [];
      expect(evidence).toMatchObject({ condition, detail: expect.stringContaining(detail) });
      const target = (await targetsOf(id, "&status=failed")).find(
        (each) => each.identity_id === evidence?.identity_id,
      );
      expect(Date.parse(evidence?.began_at ?? "")).toBeGreaterThanOrEqual(
        Date.parse(target?.assigned_at ?? ""),
      );
    },
  );

  it("ignores a condition that began before the assignment, and one that the gate does not have", async () => {
    lab.fleet.react("fills_its_queue");
    const troubled = lab.fleet.hosts[0];
    if (troubled) troubled.isSilent = true;
    for (let minutes = 0; minutes < 4; minutes += 1) await lab.fleet.beat();
    const { id } = await start({
      waves,
      gate: { max_failed_percent: 0, states: ["stale", "rolled_back"] },
    });
    const done = await runUntil(id, "completed");
    expect(done).toMatchObject({ failed: 0, applied: 9, assigned: 1 });
  });

  it("K2: has a gate that sees failures, though it was created while the clock was 2 h ahead", async () => {
    const right = clock.now();
    clock.set(right + 7_200_000);
    const { id } = await start({ waves: [{ percent: 100, soak_seconds: 600 }] });
    await tick();
    clock.set(right);
    await clock.advance(20_000);
    await correctTimes(core);
    lab.fleet.react("rolls_back");
    expect((await runUntil(id, "paused")).breach).toMatchObject({
      failed: 10,
      failed_percent: 100,
    });
    expect(Date.parse((await get(id)).created_at)).toBeLessThan(clock.now());
  });

  it("K2: goes on when an operator resumes it after a breach that was found while the clock was 2 h ahead", async () => {
    const { id } = await start({ waves });
    const right = clock.now();
    clock.set(right + 7_200_000);
    await failFirst(id);
    await runUntil(id, "paused");
    clock.set(right + 60_000);
    await correctTimes(core);
    await clock.advance(1000);
    await control(id, "resume");
    expect(await runUntil(id, "completed", "paused")).toMatchObject({
      state: "completed",
      failed: 1,
      applied: 9,
    });
  });

  it("Q12: pauses once core finds that its database was restored, until an operator resumes it", async () => {
    const { id } = await start({ waves });
    await tick();
    await holdAccess(core);
    await confirmAccess(core, { emails: null, operator: "root" });
    await tick();
    expect(await get(id)).toMatchObject({
      state: "paused",
      reason: { code: "database_restored", detail: null },
    });
    expect((await lab.eventsOf(id)).at(-1)).toBe("rollout.pause");
    await control(id, "resume");
    expect(await runUntil(id, "completed")).toMatchObject({ applied: 10 });
  });

  it("goes on after a breach when an operator resumes it", async () => {
    const { id } = await start({ waves });
    await failFirst(id);
    expect((await runUntil(id, "paused")).breach).toMatchObject({ failed: 1, failed_percent: 25 });
    await control(id, "resume");
    expect(await runUntil(id, "completed")).toMatchObject({ failed: 1, applied: 9 });
    expect(await lab.eventsOf(id)).toContain("rollout.resume");
  });

  it("keeps the time of its pause while hosts go on applying its config", async () => {
    const { id } = await start({ waves });
    await tick();
    await control(id, "pause");
    const since = clock.iso();
    await lab.fleet.beat();
    await lab.fleet.beat();
    await tick();
    expect(await get(id)).toMatchObject({ state: "paused", applied: 4 });
    const { lines } = await test.auditor.read<NowReport>("/v1/now");
    expect(lines.find(({ kind }) => kind === "rollout")).toMatchObject({ since });
  });

  it("soaks anew after a pause, in which no host is assigned", async () => {
    const { id } = await start({ waves });
    await runUntil(id, "soaking");
    await control(id, "pause", { reason: "lunch" });
    expect(await get(id)).toMatchObject({
      state: "paused",
      reason: { code: "operator", detail: "lunch" },
    });
    for (let minutes = 0; minutes < 3; minutes += 1) {
      await lab.fleet.beat();
      await tick();
    }
    expect(await get(id)).toMatchObject({ state: "paused", wave: 1, applied: 4, pending: 6 });
    await control(id, "resume");
    const resumedAt = clock.now();
    const soaking = await runUntil(id, "soaking");
    expect(Date.parse(soaking.waves[0]?.soak_until ?? "")).toBeGreaterThanOrEqual(
      resumedAt + soak_seconds * 1000,
    );
    expect((await control(id, "abort")).body).toMatchObject({
      state: "aborted",
      applied: 4,
      pending: 6,
    });
    await tick();
    expect(await get(id)).toMatchObject({ state: "aborted", applied: 4, pending: 6 });
  });

  it("is rolled back in mid-wave by an operator, and refuses what its state does not allow", async () => {
    const { id } = await start({ waves });
    await tick();
    expect((await control(id, "roll-back", { reason: "wrong config" })).body.state).toBe(
      "rolling_back",
    );
    expect((await control(id, "roll-back")).status).toBe(200);
    expect([(await control(id, "pause")).body, (await control(id, "resume")).body]).toMatchObject([
      { code: "rollout_state", state: "rolling_back" },
      { code: "rollout_state" },
    ]);
    await tick();
    expect(await get(id)).toMatchObject({ state: "rolled_back", reverted: 4, pending: 6 });
    expect((await control(id, "abort")).status).toBe(409);
    expect((await control(id, "roll-back")).status).toBe(200);
    expect((await control("01920000-0000-7000-8000-000000000000", "pause")).status).toBe(404);
  });

  it("is rolled back after an abort: hosts that still have its config get what they had before", async () => {
    const { id } = await start({ waves });
    await tick();
    const [kept, changed] = await targetsOf(id, "&status=assigned");
    await control(id, "abort");
    const other = await publishTestConfig(test, 900);
    const body = { identity_ids: [changed?.identity_id] };
    await admin.post(`/v1/collector/configs/${other}/assignments`, body);
    expect((await control(id, "roll-back", { reason: "wrong config" })).body).toMatchObject({
      state: "rolling_back",
      ended_at: null,
      reason: { code: "operator", detail: "wrong config" },
    });
    await tick();
    expect(await get(id)).toMatchObject({
      state: "rolled_back",
      reverted: 3,
      skipped: 1,
      pending: 6,
    });
    const [host] = await db.execute(sql`select config_id from config_assignment
      where identity_id = ${kept?.identity_id}::uuid and ended_at is null`);
    expect(host?.config_id).toBe(kept?.previous_config_id);
    expect((await lab.eventsOf(id)).slice(-3)).toEqual([
      "rollout.abort",
      "rollout.roll_back",
      "rollout.rolled_back",
    ]);
    expect((await control(id, "abort")).status).toBe(409);
  });

  it("is not rolled back after an abort while another rollout has its hosts, and names that one", async () => {
    const { id } = await start({ waves });
    await tick();
    await control(id, "abort");
    const next = await start({ waves });
    expect(await control(id, "roll-back")).toMatchObject({
      body: { code: "rollout_overlap", rollouts: [{ rollout_id: next.id, hosts: 4 }] },
    });
    expect(await get(id)).toMatchObject({ state: "aborted" });
    await control(next.id, "abort");
    expect((await control(id, "roll-back")).status).toBe(200);
    await tick();
  });

  it("V3: skips a host that is revoked, also once it has failed, and one that stops applying configs before its wave", async () => {
    const { id } = await start({
      waves,
      gate: { max_failed_percent: 25, states: ["rolled_back"] },
    });
    const bad = await failFirst(id);
    expect(await runUntil(id, "soaking")).toMatchObject({ failed: 1, skipped: 0 });
    await test.revoke(bad);
    await tick();
    expect(await get(id)).toMatchObject({ failed: 0, skipped: 1 });
    const last = await targetsOf(id, "&wave=2");
    const [revoked, refusing] = last.map(({ identity_id }) => identity_id);
    await db.execute(
      sql`update collector_health set apply_desired_config = false where identity_id = ${refusing}::uuid`,
    );
    const away = [bad, revoked, refusing];
    const silent = lab.fleet.hosts.filter(({ host }) => away.includes(host.identityId));
    for (const host of silent) host.isSilent = true;
    await test.revoke(revoked);
    expect(await runUntil(id, "completed")).toMatchObject({ applied: 7, skipped: 3 });
    const reasons = (await targetsOf(id, "&status=skipped")).map(({ identity_id, reason }) => [
      identity_id,
      reason,
    ]);
    expect(reasons).toEqual([
      [bad, "revoked"],
      [revoked, "revoked"],
      [refusing, "apply_desired_config_off"],
    ]);
  });
});
