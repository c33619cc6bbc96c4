/* What is stated of hosts' hours after a dump was restored into another server, whose transaction ids differ, or bytes of them were lost. */
import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { dayAt, findDays } from "#functions/store/completeness/days.ts";
import { findLastStatement, listChunks } from "#functions/store/completeness/log.ts";
import { adoptExports } from "#functions/store/export/renumber-envelopes.ts";
import { addLostRanges } from "#functions/store/ingest/gaps.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { stateOfByte } from "#proto/completeness/hour-state.ts";
import { hourText } from "#proto/completeness/statement-line.ts";
import { storeAccount } from "#tests/support/accounts.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { settleHours } from "./settle-hours.ts";
import { writeStatement } from "./write-statement.ts";

const test = await useTestCore();
const { clock, core, db } = test;
const first = clock.now() - (clock.now() % hourMs);
const { enroll } = await createTestToken(test);
const { identity: host } = await enroll("host");
const owner = "01920000-0000-7000-8000-000000000001";

const stateAt = async (at: number) => {
  const [row] = await findDays(db, [host], { from: dayAt(at), to: dayAt(at) });
  return stateOfByte(row?.states[(at % dayMs) / hourMs]);
};
const settle = () => settleHours(core, { owner, retentionDays: 400 });
const state = () => writeStatement({ ...core, logSigner: null }, owner);
const advanceTo = (ms: number) => clock.advance(ms - clock.now());
/** Stores an account as this server does. */
const storeHere = (at: number) =>
  db.transaction(async (tx) => {
    const [row] = await tx.execute<{ xid: string }>(sql`select pg_current_xact_id()::text as xid`);
    await storeAccount(tx, host, at, { xid: BigInt(row?.xid ?? 0) });
  });

it("holds nothing for delivered by a position of another server, and goes on where the dump was once it is adopted", async () => {
  // By the other server: an export has passed the first account, and not the second one.
  await storeAccount(db, host, first, { xid: 5_000_000n });
  await storeAccount(db, host, first + hourMs, { xid: 5_000_900n });
  await db.execute(sql`
    insert into export_position (name, position, position_at, lease_until, epoch, exported, rejected_items, lost, system_identifier,
      updated_at)
    values ('backend', 5000500, now(), now(), 0, 0, 0, 0, '7', now())`);
  await advanceTo(first + 2 * hourMs + 15 * 60_000);
  await settle();
  await db.execute(
    sql`update completeness_progress set hour = ${new Date(first - hourMs).toISOString()}`,
  );
  for (let hour = 0; hour < 2; hour++) await settle();
  await state();
  await db.execute(sql`update completeness_statement set delivered_below = 5000500`);
  expect([await stateAt(first), await stateAt(first + hourMs)]).toEqual([
    "undelivered",
    "undelivered",
  ]);

  await storeHere(first + 2 * hourMs);
  expect(await adoptExports(db)).toEqual({ renumbered: 0, adopted: ["backend"] });
  expect(await adoptExports(db)).toEqual({ renumbered: 0, adopted: [] });
  expect((await findLastStatement(db))?.deliveredBelow).toBe(5_000_500n - 5_000_901n);
  await advanceTo(first + 3 * hourMs + 15 * 60_000);
  expect(await state()).toMatchObject({ corrections: 0 });
  // The export delivers what the dump has, then what this server stored.
  await db.execute(sql`update export_position set position = 0`);
  await settle();
  expect([await stateAt(first), await stateAt(first + hourMs)]).toEqual(["complete", "complete"]);
  expect(await stateAt(first + 2 * hourMs)).toBe("undelivered");
  await advanceTo(first + 4 * hourMs + 15 * 60_000);
  expect(await state()).toMatchObject({ corrections: 1 });
  await db.execute(
    sql`update export_position set position = pg_snapshot_xmax(pg_current_snapshot())::text::bigint`,
  );
  await settle();
  expect(await stateAt(first + 2 * hourMs)).toBe("complete");
  await advanceTo(first + 5 * hourMs + 15 * 60_000);
  expect(await state()).toMatchObject({ corrections: 1 });
});

it("corrects the statement of an hour of which records have been lost since", async () => {
  const hour = first + 5 * hourMs;
  await storeAccount(db, host, hour, { sink: "nats" });
  await advanceTo(hour + hourMs + 15 * 60_000);
  while ((await settle()) !== undefined);
  await state();
  expect(await stateAt(hour)).toBe("undelivered");
  const [account] = await db.execute<{ queue_id: Uint8Array; last: string }>(
    sql`select queue_id, last_sequence::text as last from ingest_account order by number desc limit 1`,
  );
  const through = BigInt(account?.last ?? 0);
  const queue = { hostId: host, queueId: account?.queue_id ?? new Uint8Array() };
  const lost = { ...queue, from: through - 2n, through: through + 9n };
  await addLostRanges(db, [lost], new Date(clock.now()));
  await settle();
  expect(await stateAt(hour)).toBe("short");
  await advanceTo(hour + 2 * hourMs + 15 * 60_000);
  expect(await state()).toMatchObject({ corrections: 1 });
  const { id = "" } = (await findLastStatement(db)) ?? {};
  const chunk = (await listChunks(db, { id, fromLine: 0, limit: 9 })).at(-1);
  const lines = zstdCodec.decompress(chunk?.lines ?? new Uint8Array(), chunk?.rawBytes ?? 0);
  expect(Buffer.from(lines ?? []).toString()).toMatch(
    new RegExp(
      `^\\S+ short hour=${hourText(hour)} accepted=1000 stored=997 lost=3 short=lost_in_restore sink=nats`,
    ),
  );
});
