import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { fleetCheckpoint } from "#drizzle/schema/fleet-history.ts";
import { tryLock } from "#functions/store/database/try-lock.ts";
import { changesPerCheckpoint } from "#functions/store/fleet/past/checkpoints.ts";
import { dayMs } from "#kit/clock.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createHistoryKeeper } from "./keep-history.ts";

const test = await useTestCore({ env: { SVC_STATE_RETENTION_DAYS: "2" } });
const { clock, core, db } = test;
const keepHistory = createHistoryKeeper(core);
await test.seedFleet(20);

/** Ends as many silences of hosts as if each had been silent for a moment. */
const addChanges = (count: number) =>
  db.execute(sql`insert into fleet_silence (identity_id, is_of_envelopes, from_at, until_at, queue_bytes)
    select identity_id, true, at - interval '1 ms', at, -1
    from (select identity_id from fleet_status order by 1 limit 1) host, generate_series(1, ${count}::int) n,
      lateral (select ${clock.iso()}::timestamptz - n * interval '2 ms' as at) ended`);
const findCheckpoints = () =>
  db
    .select({ at: fleetCheckpoint.at, baseAt: fleetCheckpoint.baseAt })
    .from(fleetCheckpoint)
    .orderBy(fleetCheckpoint.at);

it("adds a checkpoint of two minutes ago after some thousand changes, and drops it a day after its retention", async () => {
  await clock.advance(60_000);
  await addChanges(changesPerCheckpoint - 1000);
  await clock.advance(150_000);
  await keepHistory();
  expect(await findCheckpoints()).toEqual([]);
  await addChanges(1000);
  await keepHistory();
  // Changes of the last two minutes may not have been committed.
  expect(await findCheckpoints()).toEqual([]);
  await clock.advance(150_000);
  await keepHistory();
  await keepHistory();
  const first = { at: new Date(clock.now() - (clock.now() % 1000) - 120_000), baseAt: null };
  expect(await findCheckpoints()).toEqual([first]);
  await addChanges(changesPerCheckpoint);
  await clock.advance(150_000);
  await keepHistory();
  const second = { at: new Date(clock.now() - (clock.now() % 1000) - 120_000), baseAt: first.at };
  expect(await findCheckpoints()).toEqual([first, second]);
  await clock.advance(3 * dayMs - 270_001);
  await keepHistory();
  expect(await findCheckpoints()).toEqual([first, second]);
  await clock.advance(60_000);
  await keepHistory();
  expect(await findCheckpoints()).toEqual([second]);
});

it("adds no checkpoint while another core does", async () => {
  const beganAt = clock.now();
  const findNew = async () => (await findCheckpoints()).filter(({ at }) => at.getTime() > beganAt);
  await addChanges(changesPerCheckpoint);
  await clock.advance(150_000);
  await db.transaction(async (tx) => {
    expect(await tryLock(tx, "history")).toBe(true);
    await keepHistory();
  });
  expect(await findNew()).toEqual([]);
  await keepHistory();
  expect(await findNew()).toHaveLength(1);
});
