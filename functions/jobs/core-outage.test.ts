import { sql } from "drizzle-orm";
import { beforeEach, describe, expect, it } from "vitest";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import type { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { Rollout } from "#proto/rollout/rollout.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createRolloutLab } from "#tests/support/rollout.ts";
import { relationsAt } from "../chat-sql/relations.ts";
import { readFleetRules } from "../domain/fleet/rules.ts";
import { sessionIntervalMs } from "../store/fleet/core-sessions.ts";
import { advanceRollouts } from "./core-jobs.ts";
import { createSessionKeeper } from "./keep-core-session.ts";

// Stale after 90 s; after an outage hosts have 63 s to come back.
const test = await useTestCore({ env: { SVC_HEARTBEAT_INTERVAL: "30s" } });
const { auditor, clock, core, db } = test;

/** Lets time pass in which cores run: each extends its session. */
const pass = async (ms: number, ...keepers: ReturnType<typeof createSessionKeeper>[]) => {
  for (let passed = 0; passed < ms; passed += sessionIntervalMs) {
    await clock.advance(Math.min(sessionIntervalMs, ms - passed));
    for (const keep of keepers) await keep();
  }
};
const outages = async () =>
  (
    await db.execute(sql`
      select extract(epoch from began_at)::float8 * 1000 as began, extract(epoch from ended_at - began_at)::float8 as seconds
      from core_outage order by began_at`)
  ).map(({ began, seconds }) => [began, seconds]);
const report = (query = "") => auditor.read<FleetHealthReport>(`/v1/collector/health${query}`);

describe("an outage of core", async () => {
  const keep = createSessionKeeper(
    core,
    () => true,
    () => undefined,
  );
  const running = {
    ...test,
    clock: { ...clock, now: clock.now, advance: (ms: number) => pass(ms, keep) },
  };
  const lab = await createRolloutLab(running, {
    count: 25,
    name: "web",
    tick: () => advanceRollouts(core),
  });

  it("V1: makes no host stale, breaches no gate and changes no figure of an alert, for 80 s and for 3 h", async () => {
    await db.execute(sql`truncate core_session, core_outage`);
    await keep();
    await lab.settle();
    const { id } = await lab.start({
      waves: [{ percent: 100, soak_seconds: 600 }],
      on_breach: "roll_back",
    });
    const soakUntil = ({ waves: [wave] }: Rollout) => Date.parse(wave?.soak_until ?? "");
    const planned = soakUntil(await lab.runUntil(id, "soaking"));
    const [dead] = lab.fleet.hosts;
    for (const seconds of [80, 3 * 3600]) {
      await clock.advance(seconds * 1000);
      // The worst order: everything is evaluated before the core that has just resumed extends its session.
      await advanceRollouts(core);
      const during = await report("?limit=1");
      expect(during.summary).toMatchObject({
        by_state: { stale: 0, healthy: 25 },
        active_recent_heartbeats: 25,
      });
      expect(during.outages?.at(-1)).toMatchObject({ ended_at: null, counted_from: null });
      await keep();
      await pass(50_000, keep);
      await advanceRollouts(core);
      const rules = await readFleetRules(core);
      expect(
        await db.execute(
          sql`with ${relationsAt(rules)} select count(*)::int as n from collectors where state = 'stale'`,
        ),
      ).toEqual([{ n: 0 }]);
      expect((await report("?state=stale")).items).toEqual([]);
      const facets = await auditor.read<FleetFacets>("/v1/collector/health/facets");
      expect(facets.exports.stale).toBe(0);
      const rollout = await lab.get(id);
      expect(rollout).toMatchObject({ state: "soaking", failed: 0, applied: 25, breach: null });
      // The page of the rollout says why it takes longer, and until when.
      expect(rollout.outages?.at(-1)).toMatchObject({ counted_from: expect.any(String) });
      if (seconds === 80) expect(soakUntil(rollout) - planned).toBe((80 + 63) * 1000);
      expect((await report("?changed_within_seconds=60&device=web-2")).items).toEqual([]);
      if (dead) dead.isSilent = seconds > 80;
      await lab.fleet.beat();
      expect((await report("?changed_within_seconds=60&device=web-2")).items).toEqual([]);
    }
    // One died meanwhile: its silence counts from the end of the allowance, and it alone fails.
    await pass(60_000, keep);
    await lab.fleet.beat();
    await advanceRollouts(core);
    expect(await lab.get(id)).toMatchObject({ failed: 1, applied: 24 });
    const { body } = await auditor.get<FleetHealthDetail>(
      `/v1/collector/health/${dead?.host.identityId}`,
    );
    expect(body.item.conditions).toMatchObject([
      {
        state: "stale",
        evidence: expect.stringMatching(
          /^last heartbeat \d+ s ago, threshold 90 s, not counting 10876 s in which core/,
        ),
      },
    ]);
    expect(
      body.outages?.map(
        ({ began_at, ended_at }) => Date.parse(ended_at ?? "") - Date.parse(began_at),
      ),
    ).toEqual([80_000, 10_800_000]);
    await lab.abortAll();
  });
});

describe("the sessions of cores", () => {
  beforeEach(async () => {
    await db.execute(sql`truncate core_session, core_outage`);
    await clock.advance(3_600_000);
  });
  const keeper = (isReady = () => true) => createSessionKeeper(core, isReady, () => undefined);

  it("tell whether a core of the previous version can receive too", async () => {
    const told: boolean[] = [];
    const keep = createSessionKeeper(
      core,
      () => true,
      (isPresent) => told.push(isPresent),
    );
    await keep();
    await db.execute(sql`insert into core_session (id, started_at, received_until)
      select gen_random_uuid(), started_at, received_until from core_session`);
    await keep();
    await pass(60_000, keep);
    expect([told[0], told[1], told.at(-1)]).toEqual([false, true, false]);
  });

  it("begin without an outage, and a restart within 15 s is none", async () => {
    await keeper()();
    await pass(60_000, keeper());
    await clock.advance(15_000);
    await keeper()();
    expect(await outages()).toEqual([]);
  });

  it("show an outage while no core was ready: suspended, stopped, or unable to write", async () => {
    const isReady = { value: true };
    const keep = keeper(() => isReady.value);
    await keep();
    const suspended = clock.now();
    await clock.advance(80_000);
    expect(await keep()).toEqual({
      outage_seconds: 80,
      began_at: new Date(suspended).toISOString(),
    });
    isReady.value = false;
    const stopped = clock.now();
    await pass(40_000, keep);
    isReady.value = true;
    await keep();
    const shown = (await report("?limit=1")).outages ?? [];
    expect(shown.map(({ is_clock_skip }) => is_clock_skip)).toEqual([undefined, undefined]);
    expect(await outages()).toEqual([
      [suspended, 80],
      [stopped, 40],
    ]);
  });

  it("show none while another core received, and one for all that come back together", async () => {
    const one = keeper();
    const other = keeper();
    await one();
    await pass(60_000, other);
    await one();
    expect(await outages()).toEqual([]);
    const from = clock.now();
    await clock.advance(80_000);
    await Promise.all([one(), other()]);
    expect(await outages()).toEqual([[from, 80]]);
  });

  it("grow by monotonic time: a clock that jumps ahead skips time, and one that jumps back takes the future back", async () => {
    const keep = keeper();
    await keep();
    await pass(60_000, keep);
    const right = clock.now();
    clock.set(right + 7_200_000);
    await pass(5_000, keep);
    expect(await outages()).toEqual([[right, 7200]]);
    expect((await report("?limit=1")).outages).toMatchObject([{ is_clock_skip: true }]);
    clock.set(right + 5_000);
    await pass(5_000, keep);
    expect(await outages()).toEqual([]);
    await pass(20_000, keep);
    expect(await outages()).toEqual([]);
  });

  it("count a core of an earlier version by the heartbeats that it stored", async () => {
    const lab = await createRolloutLab(test, {
      count: 2,
      name: "earlier",
      tick: async () => undefined,
    });
    await keeper()();
    for (let minutes = 0; minutes < 3; minutes += 1) {
      await lab.fleet.beat();
      await clock.advance(-40_000);
    }
    await clock.advance(20_000);
    const [began] = (await outages())[0] ?? [];
    expect(began).toBeUndefined();
    await keeper()();
    expect((await outages()).map(([, seconds]) => seconds)).toEqual([40]);
  });
});
