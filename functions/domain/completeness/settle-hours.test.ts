import { createHash } from "node:crypto";
import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { dayAt, findDays } from "#functions/store/completeness/days.ts";
import { findHostFacts } from "#functions/store/completeness/hour-facts.ts";
import { addLostRanges } from "#functions/store/ingest/gaps.ts";
import { endQueue, noteQueues } from "#functions/store/ingest/queues.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { packNotes, unpackNotes } from "#proto/completeness/hour-note.ts";
import { hourStates, stateOfByte } from "#proto/completeness/hour-state.ts";
import { exportThrough, storeAccount } from "#tests/support/accounts.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { settleHours } from "./settle-hours.ts";

const test = await useTestCore();
const { clock, core, db } = test;
const first = clock.now() - (clock.now() % hourMs);
const { enrollAll } = await createTestToken(test);
const [{ identity: a }, { identity: b }, { identity: c }] = await enrollAll("a", "b", "c");

const owner = "01920000-0000-7000-8000-000000000001";
const settle = (by = owner) => settleHours(core, { owner: by, retentionDays: 400 });
const advanceTo = (ms: number) => clock.advance(ms - clock.now());
const stateOf = async (host: string, at: number) => {
  const [row] = await findDays(db, [host], { from: dayAt(at), to: dayAt(at) });
  return stateOfByte(row?.states[(at % dayMs) / hourMs]);
};
const statesAt = (at: number) => Promise.all([a, b, c].map((host) => stateOf(host, at)));

/** Compares the counts of hours with the rows. */
const expectCountsToAddUp = async () => {
  const counted = await db.execute<{ hour: string; hosts: string }>(
    sql`select hour, array_to_json(hosts)::text as hosts from completeness_hour order by hour`,
  );
  for (const { hour, hosts } of counted) {
    const at = Date.parse(hour);
    const rows = await db.execute<{ byte: number }>(
      sql`select get_byte(states, ${(at % dayMs) / hourMs}::int) as byte from completeness_day where day = ${dayAt(at)}::int`,
    );
    expect(JSON.parse(hosts), hour).toEqual(
      hourStates.map((_, index) => rows.filter(({ byte }) => byte === index + 1).length),
    );
  }
};

it("are settled once the grace is over, also of a host that sent nothing", async () => {
  await storeAccount(db, a, first, { fromMs: first });
  await storeAccount(db, b, first, { queueFull: 310 });
  await advanceTo(first + hourMs + 14 * 60_000);
  await settle();
  expect(await statesAt(first)).toEqual([null, null, null]);
  await advanceTo(first + hourMs + 15 * 60_000);
  expect(await settle()).toEqual({ hour: new Date(first).toISOString(), hosts: 3 });
  expect(await statesAt(first)).toEqual(["undelivered", "short", "not_accounted"]);
  const [row] = await findDays(db, [b], { from: dayAt(first), to: dayAt(first) });
  expect(unpackNotes(row?.details ?? null)).toEqual(
    new Map([
      [
        (first % dayMs) / hourMs,
        { accepted: 1000, stored: 1000, shortages: [{ kind: "dropped", count: 310 }] },
      ],
    ]),
  );
  expect(row?.incompleteHours).toBe(1);
  expect(await settle()).toBeUndefined();
  await expectCountsToAddUp();
});

it("become complete when every export has passed their accounts", async () => {
  await exportThrough(db, 70);
  expect(await settle()).toBeUndefined();
  expect(await stateOf(a, first)).toBe("undelivered");
  await exportThrough(db, 71);
  expect(await settle()).toEqual({ again: 1 });
  expect(await stateOf(a, first)).toBe("complete");
  await expectCountsToAddUp();
});

it("become short when bytes of them are lost, once for ranges that overlap", async () => {
  await storeAccount(db, c, first, { number: 1, receivedMs: clock.now() });
  expect(await settle()).toEqual({ again: 1 });
  await clock.advance(120_000);
  await settle();
  const [account] = await db.execute<{ queue_id: Uint8Array }>(
    sql`select queue_id from ingest_account where host_id = ${c}`,
  );
  const queue = { hostId: c, queueId: account?.queue_id ?? new Uint8Array() };
  const lose = (from: bigint, through: bigint) =>
    addLostRanges(db, [{ ...queue, from, through }], new Date(clock.now()));
  await lose(1_001n, 1_100n);
  expect(await settle()).toBeUndefined();
  await lose(991n, 1_005n);
  await lose(995n, 996n);
  expect(await settle()).toEqual({ again: 1 });
  const [row] = await findDays(db, [c], { from: dayAt(first), to: dayAt(first) });
  const shortages = [{ kind: "lost_in_restore" as const, count: 10 }];
  const note = { accepted: 1_000, stored: 990, shortages };
  expect(unpackNotes(row?.details ?? null)).toEqual(new Map([[(first % dayMs) / hourMs, note]]));
  expect(await stateOf(c, first)).toBe("short");
  await expectCountsToAddUp();
  await db.execute(sql`delete from ingest_lost_range`);
  await db.execute(sql`delete from ingest_account where host_id = ${c}`);
  await expectCountsToAddUp();
});

it("are late or silent until their account comes, and then what it says", async () => {
  const second = first + hourMs;
  await storeAccount(db, c, second, { toMs: second + 60_000, accepted: 5 });
  await advanceTo(second + hourMs + 20 * 60_000);
  await settle();
  expect(await statesAt(second)).toEqual(["silent", "silent", "silent"]);
  await storeAccount(db, a, second, { receivedMs: clock.now() });
  expect(await settle()).toEqual({ again: 1 });
  expect(await statesAt(second)).toEqual(["complete", "silent", "silent"]);
  const [row] = await findDays(db, [a], { from: dayAt(second), to: dayAt(second) });
  expect(row).toMatchObject({ incompleteHours: 0, undelivered: 0, xid: null, details: null });
  await expectCountsToAddUp();
});

it("are short once the account of a later hour shows that theirs is lost", async () => {
  const third = first + 2 * hourMs;
  await storeAccount(db, b, third);
  await advanceTo(third + hourMs + 15 * 60_000);
  await settle();
  expect(await stateOf(b, first + hourMs)).toBe("short");
  expect(await stateOf(b, third)).toBe("complete");
  await expectCountsToAddUp();
});

it("are settled hour by hour after a time without core, by one core at a time", async () => {
  const fourth = first + 3 * hourMs;
  await storeAccount(db, a, fourth, {
    toMs: fourth + 30 * hourMs,
    isStopped: true,
    accepted: 0,
    receivedMs: fourth + 30 * hourMs,
  });
  await advanceTo(fourth + 30 * hourMs + 15 * 60_000);
  for (let hour = 0; hour < 30; hour += 1) expect((await settle())?.hosts).toBe(3);
  expect((await settle())?.hour).toBeUndefined();
  expect(await stateOf(a, fourth + 29 * hourMs)).toBe("not_running");
  await db.execute(
    sql`update completeness_progress set owner = ${owner}::uuid, lease_until = clock_timestamp() + interval '1 minute'`,
  );
  await advanceTo(fourth + 32 * hourMs);
  expect(await settle("01920000-0000-7000-8000-000000000002")).toBeUndefined();
  expect((await settle())?.hosts).toBe(3);
  await expectCountsToAddUp();
});

it("L1, L4: are late while a queue that core has seen is not accounted for, and short once it has ended", async () => {
  const hour = clock.now() - (clock.now() % hourMs) - hourMs;
  const lost = { hostId: c, queueId: new Uint8Array(16).fill(9) };
  await noteQueues(db, [{ ...lost, sendsAccounts: true }], new Date(hour + 60_000));
  await storeAccount(db, c, hour);
  await advanceTo(hour + 2 * hourMs);
  await settle();
  await advanceTo(hour + 2 * hourMs + 16 * 60_000);
  await settle();
  expect(await stateOf(c, hour)).toBe("silent");
  await endQueue(
    db,
    lost,
    { endedAt: new Date(hour + hourMs), ending: "closed" },
    new Date(clock.now()),
  );
  await settle();
  expect(await stateOf(c, hour)).toBe("short");
  const [row] = await findDays(db, [c], { from: dayAt(hour), to: dayAt(hour) });
  expect(unpackNotes(row?.details ?? null).get((hour % dayMs) / hourMs)?.shortages).toEqual([
    { kind: "unknown", count: null },
  ]);
  await expectCountsToAddUp();
});

it("stay when accounts leave with the telemetry of their time, all but the newest of each queue", async () => {
  const ingest = { retentionDays: 30 } as NonNullable<typeof core.config.ingest>;
  const keeping = { ...core, config: { ...core.config, ingest } };
  const settleKeeping = () => settleHours(keeping, { owner, retentionDays: 400 });
  await advanceTo(first + 40 * dayMs);
  expect((await settleKeeping())?.hosts).toBe(3);
  const left = await db.execute(
    sql`select host_id, count(*)::int as accounts from ingest_account group by 1 order by 1`,
  );
  expect(left).toEqual([a, b, c].toSorted().map((host_id) => ({ host_id, accounts: 1 })));
  await storeAccount(db, b, first, { number: 1, receivedMs: clock.now() });
  expect(await settleKeeping()).not.toHaveProperty("again");
  expect(await stateOf(b, first)).toBe("short");
  expect(await stateOf(a, first)).toBe("complete");
});

it("L1: are bound through the end of a queue by the clock of its host, which is days ahead", async () => {
  const endedMs = clock.now();
  const queue = {
    hostId: "ahead",
    queueId: Uint8Array.fromHex(createHash("md5").update("ahead").digest("hex")),
  };
  await storeAccount(db, "ahead", endedMs + 2 * dayMs, { receivedMs: endedMs });
  await noteQueues(db, [{ ...queue, sendsAccounts: true }], new Date(endedMs));
  await endQueue(db, queue, { endedAt: new Date(endedMs), ending: "lost" }, new Date(endedMs));
  const facts = (await findHostFacts(db, ["ahead"])).get("ahead");
  expect(facts?.queues).toMatchObject([
    { fromMs: endedMs + 2 * dayMs, endMs: endedMs + 2 * dayMs + hourMs },
  ]);
});

it("of a day in which every hour is short have less than 1 KB", () => {
  const shortages = [
    { kind: "dropped" as const, count: 123_456 },
    { kind: "missing" as const, count: 3 },
  ];
  const notes = new Map(
    Array.from({ length: 24 }, (_, hour) => [
      hour,
      { accepted: 1_234_567, stored: 1_234_564, shortages },
    ]),
  );
  const text = packNotes(notes) ?? "";
  expect(text.length).toBeLessThan(1000 - 24);
  expect(unpackNotes(text)).toEqual(notes);
});
