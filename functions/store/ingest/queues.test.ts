import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { hourMs } from "#kit/clock.ts";
import { useTestCore } from "#tests/support/core.ts";
import {
  deleteOldQueues,
  endAbandonedQueues,
  endQueue,
  findEnding,
  noteEarlier,
  noteForks,
  noteQueues,
} from "./queues.ts";

const test = await useTestCore();
const { db, clock } = test;
const hostId = "spiffe://fleet.example/queues";
const start = clock.now();
const at = (ms: number) => new Date(start + ms);
const id = (byte: number) => new Uint8Array(16).fill(byte);
const queue = (byte: number) => ({ hostId, queueId: id(byte) });
const note = (byte: number, ms = 0, sendsAccounts = true) =>
  noteQueues(db, [{ ...queue(byte), sendsAccounts }], at(ms));
const readQueues = () =>
  db.execute(sql`
    select left(encode(queue_id, 'hex'), 2) as queue, (extract(epoch from ended_at - ${at(0).toISOString()}::timestamptz) * 1000)::text as ended,
      ending, sends_accounts as sends from ingest_queue where host_id = ${hostId} order by queue_id`);

it("opens a queue again that core had closed, and remembers that a client sends accounts", async () => {
  await note(1, 0, false);
  await note(1);
  await note(1, 1, false);
  expect(await readQueues()).toEqual([{ queue: "01", ended: null, ending: null, sends: true }]);
  expect(await endQueue(db, queue(1), { endedAt: at(5), ending: "closed" }, at(5))).toBe(true);
  expect(await endQueue(db, queue(1), { endedAt: at(9), ending: "lost" }, at(9))).toBe(false);
  expect(await readQueues()).toMatchObject([{ ended: "5.000000", ending: "closed" }]);
  await note(1, 10);
  expect(await readQueues()).toMatchObject([{ ended: null, ending: null }]);
});

it("lets a queue bind the hours since it was in use, also one that a restored database does not know", async () => {
  await note(5, 10);
  const earlier = (byte: number, ms: number) =>
    noteEarlier(db, [{ ...queue(byte), at: at(ms).getTime() }], at(20));
  for (const [byte, ms] of [
    [5, 3],
    [5, 7],
    [6, 4],
  ] as const)
    await earlier(byte, ms);
  const rows = await db.execute(sql`select queue_id, first_seen_at, ended_at from ingest_queue
    where host_id = ${hostId} and queue_id >= ${id(5)} order by queue_id`);
  expect(
    rows.map(({ first_seen_at, ended_at }) => [new Date(`${first_seen_at}`), ended_at]),
  ).toEqual([
    [at(3), null],
    [at(4), null],
  ]);
});

it("does not end a queue of which a copy has sent by the copy's successor", async () => {
  await note(2);
  await noteForks(db, hostId, [queue(2).queueId]);
  expect(await endQueue(db, queue(2), { endedAt: at(0), ending: "succeeded" }, at(3))).toBe(false);
  expect(await findEnding(db, queue(2))).toBeNull();
  expect(await endQueue(db, queue(1), { endedAt: at(0), ending: "succeeded" }, at(3))).toBe(true);
});

it("L3: ends a queue of which a copy has sent once it is not seen for three hours, and its cursor does not move", async () => {
  await note(2, hourMs);
  await db.execute(sql`
      insert into ingest_cursor (host_id, queue_id, cursor, updated_at) values (${hostId}, ${id(2)}, 7, ${at(2 * hourMs).toISOString()}::timestamptz)`);
  const settle = (hours: number) =>
    endAbandonedQueues(db, { lostBefore: at(-1), now: at(hours * hourMs + 1) });
  const ending = () => findEnding(db, queue(2));
  await settle(4);
  expect(await ending()).toBeNull();
  await settle(5);
  expect(await ending()).toBe("forked");
  await note(2, 6 * hourMs);
  expect(await ending()).toBeNull();
  await db.execute(sql`delete from ingest_cursor`);
});

it("keeps that an account ended a queue when it is opened again", async () => {
  await note(3);
  await endQueue(db, queue(3), { endedAt: at(1), ending: "ended" }, at(1));
  await note(3, 2);
  expect(await findEnding(db, queue(3))).toBe("ended");
  expect((await readQueues())[2]).toMatchObject({ ended: null, ending: "ended" });
});

it("takes from a successor's accounts when a queue ended that the host has left", async () => {
  await note(4);
  const end = (ms: number, ending: "succeeded" | "lost" = "succeeded") =>
    endQueue(db, queue(4), { endedAt: at(ms), ending }, at(9));
  expect([await end(7), await end(5), await end(6), await end(1, "lost")]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  expect((await readQueues())[3]).toMatchObject({ ended: "5.000000", ending: "succeeded" });
});

it("counts queues of a host beyond 64 that are open as one without an id", async () => {
  for (let byte = 100; byte < 180; byte += 1) await note(byte);
  const rows = await readQueues();
  expect(rows.filter(({ ended }) => ended === null)).toHaveLength(65);
  expect(rows[0]).toMatchObject({ queue: "", ended: null });
  await note(100, 1);
  expect(await readQueues()).toHaveLength(rows.length);
});

it("ends queues that core no longer sees, unless their cursor moves, and deletes them once accounts are", async () => {
  const now = at(48 * hourMs);
  await db.execute(sql`
      insert into ingest_cursor (host_id, queue_id, cursor, updated_at) values (${hostId}, ${id(100)}, 7, ${now.toISOString()}::timestamptz)`);
  await endAbandonedQueues(db, { lostBefore: at(24 * hourMs), now });
  const open = (await readQueues()).filter(({ ended }) => ended === null);
  expect(open).toMatchObject([{ queue: "64" }]);
  await deleteOldQueues(db, new Date(now.getTime() + 1));
  expect(await readQueues()).toEqual(open);
});
