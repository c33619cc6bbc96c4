import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestLog } from "#tests/fakes/log.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { noteSink } from "../store/ingest/sinks.ts";
import { createQueueOpener, type OpenedQueue, type QueueOpener } from "./open-queue.ts";
import { createPostgresRegister } from "./postgres-sink.ts";

const database = await useTestDatabase();
let connection: ConnectedDatabase;
let opener: QueueOpener;
const gaps: bigint[] = [];
const shared = { clock: systemClock, log: createTestLog() };
const observe = {
  gap: (sequences: bigint) => void gaps.push(sequences),
  implausibleGap: () => undefined,
};
const createRegister = () =>
  createPostgresRegister({ ...shared, db: connection.db, entropy: systemEntropy });
beforeAll(async () => {
  connection = database.connect();
  opener = createQueueOpener({ ...shared, register: createRegister(), observe });
});

const bytes = (fill: number) => new Uint8Array(16).fill(fill);
const left = (fill: number, storedThrough: number) => ({
  queueId: bytes(fill),
  storedThrough: BigInt(storedThrough),
});
/** Opens queue `fill` of a host in a session of its own. */
const cursorsOf = ({ left: named }: OpenedQueue) => named?.map(({ cursor }) => cursor);
const open = (hostId: string, fill: number, claims: MessageInitShape<typeof OpenSchema> = {}) =>
  opener.open(
    create(OpenSchema, { hostId, queueId: bytes(fill), sessionId: bytes(fill), ...claims }),
  );
const moveTo = (hostId: string, fill: number, cursor: number) =>
  connection.sql`update ingest_cursor set cursor = ${cursor} where host_id = ${hostId} and queue_id = ${bytes(fill)}`;
const rowsOf = (hostId: string) => connection.sql`
  select left(encode(queue_id, 'hex'), 2) as fill, cursor, left(encode(session_id, 'hex'), 2) as session
  from ingest_cursor where host_id = ${hostId} order by queue_id`;
const eventsOf = async (hostId: string) =>
  (
    await connection.sql`
      select concat_ws(' ', action, left(details->>'queue_id', 2), details->>'from', details->>'through') as text
      from audit_event where details->>'host_id' = ${hostId} order by occurred_at, action`
  ).map(({ text }) => text);

it("Q12: records once what the database lost of queues that were left, and leaves them to a copy that still sends", async () => {
  for (const fill of [1, 2, 3]) await open("a", fill);
  for (const fill of [1, 2, 3]) await moveTo("a", fill, 10 * fill);
  gaps.length = 0;
  const claims = { leftQueues: [left(3, 45), left(4, 5), left(2, 7), left(1, 10)] };
  expect(cursorsOf(await open("a", 5, claims))).toEqual([30n, 0n, 20n, 10n]);
  // As if the first answer was lost.
  expect(cursorsOf(await open("a", 5, claims))).toEqual([30n, 0n, 20n, 10n]);
  expect(await eventsOf("a")).toEqual(["ingest.gap 03 31 45", "ingest.gap 04 1 5"]);
  expect(gaps).toEqual([15n, 5n]);
  const [row] =
    await connection.sql`select ranges, records_max as records from ingest_gap where host_id = 'a'`;
  expect(row).toEqual({ ranges: "2", records: "20" });
  expect(await rowsOf("a")).toEqual([
    { fill: "01", cursor: "10", session: "01" },
    { fill: "02", cursor: "20", session: "02" },
    { fill: "03", cursor: "30", session: "03" },
    { fill: "05", cursor: "0", session: "05" },
  ]);
});

it("Q12: records a loss once a recovery found nothing, unless the database went back meanwhile", async () => {
  let state = "former";
  let recoveries = 0;
  const restored = createQueueOpener({
    ...shared,
    observe,
    register: { ...createRegister(), readServerState: async () => state },
    recover: async () => {
      if (++recoveries === 1) state = "promoted";
      return false;
    },
  });
  const claims = { hostId: "z", queueId: bytes(2), sessionId: bytes(2), leftQueues: [left(1, 5)] };
  const openAgain = () => restored.open(create(OpenSchema, claims));
  await openAgain();
  expect(recoveries).toBe(2);
  await openAgain();
  expect(await eventsOf("z")).toEqual(["ingest.gap 01 1 5"]);
  // The database may have gone back behind the record.
  state = "restored";
  await openAgain();
  expect(await eventsOf("z")).toEqual(["ingest.gap 01 1 5", "ingest.gap 01 1 5"]);
});

it("leaves a queue to its copy that its host has left as forked, also if the database forgot that", async () => {
  for (const fill of [1, 2]) await open("h2", fill);
  const leftQueues = [{ ...left(1, 0), forked: true }, left(2, 0)];
  await open("h2", 3, { leftQueues });
  const rows = await connection.sql`select ending, is_forked as forked
    from ingest_queue where host_id = 'h2' order by queue_id`;
  expect([...rows]).toEqual([
    { ending: null, forked: true },
    { ending: "succeeded", forked: false },
    { ending: null, forked: false },
  ]);
});

it("Q11, Q12: records once what was lost of a queue that is rejected as a copy, and then left", async () => {
  await open("b", 1);
  await moveTo("b", 1, 4);
  const copy = { sessionId: bytes(9), ackedThrough: 6n, sentThrough: 6n };
  await expect(open("b", 1, copy)).rejects.toMatchObject({ code: "queue_forked" });
  expect(cursorsOf(await open("b", 2, { leftQueues: [left(1, 6)] }))).toEqual([4n]);
  expect(await eventsOf("b")).toEqual(["ingest.gap 01 5 6", "queue.forked 01"]);
  expect((await rowsOf("b"))[0]).toEqual({ fill: "01", cursor: "4", session: "01" });
});

it("Q12: records again what was lost of a queue whose cursor, with the record, a second restore set back", async () => {
  await open("r", 1);
  await moveTo("r", 1, 4);
  expect((await open("r", 1, { ackedThrough: 6n })).cursor).toBe(6n);
  await moveTo("r", 1, 4);
  expect(cursorsOf(await open("r", 2, { leftQueues: [left(1, 9)] }))).toEqual([4n]);
  expect(await eventsOf("r")).toEqual(["ingest.gap 01 5 6", "ingest.gap 01 5 9"]);
});

it("Q12: counts nothing as lost of a queue id that was acknowledged under those before it", async () => {
  await open("h", 1);
  await moveTo("h", 1, 10);
  // Of the first id core has recorded a loss.
  const leftQueues = [
    { ...left(2, 12), ackedThrough: 12n },
    { ...left(1, 7), ackedThrough: 10n },
  ];
  const opened = await open("h", 3, { leftQueues, ackedThrough: 15n });
  expect([opened.cursor, cursorsOf(opened)]).toEqual([15n, [0n, 10n]]);
  expect((await eventsOf("h")).toSorted()).toEqual(["ingest.gap 02 11 12", "ingest.gap 03 13 15"]);
  const [row] =
    await connection.sql`select range_lost::int, counted_through::int from ingest_cursor where host_id = 'h' and cursor = 15`;
  expect(row).toEqual({ range_lost: 3, counted_through: 15 });
  // A copy has sent through 10 under the first id, and this queue from 6 on under its next one.
  await open("h", 4, { leftQueues: [{ ...left(1, 10), ackedThrough: 5n }], ackedThrough: 9n });
  expect(await eventsOf("h")).toContain("ingest.gap 04 6 9");
});

it("Q12: reports no queue as lost whose cursor may have been trimmed", async () => {
  for (let fill = 1; fill <= 20; fill++) {
    await open("c", fill);
    await moveTo("c", fill, 100);
  }
  expect((await rowsOf("c")).map(({ fill }) => Number.parseInt(fill, 16))).toEqual(
    Array.from({ length: 16 }, (_, index) => index + 5),
  );
  const all = Array.from({ length: 20 }, (_, index) => left(index + 1, 100));
  for (let first = 0; first < 20; first += 8)
    await open("c", 30 + first, { leftQueues: all.slice(first, first + 8) });
  expect(await eventsOf("c")).toEqual([]);
  // One more than the queues that it names, and none was ever trimmed.
  for (let fill = 1; fill <= 15; fill++) await open("d", fill);
  expect(cursorsOf(await open("d", 15, { leftQueues: [left(16, 3)] }))).toEqual([0n]);
  expect(await eventsOf("d")).toEqual(["ingest.gap 10 1 3"]);
});

it("K9: counts nothing as lost of a left queue that was in JetStream since", async () => {
  await open("e", 1);
  await connection.sql`insert into ingest_sink (kind) values ('nats')`;
  await noteSink(connection.db, new Date(Date.now() + 2_000));
  expect(cursorsOf(await open("e", 3, { leftQueues: [left(1, 7), left(2, 8)] }))).toEqual([7n, 8n]);
  expect(await eventsOf("e")).toEqual([]);
});

it("locks queues that two clones have left of each other in one order", async () => {
  for (const fill of [1, 2]) await open("f", fill);
  const cross = (fill: number, other: number) =>
    Array.from({ length: 20 }, () => open("f", fill, { leftQueues: [left(other, 0)] }));
  const others = createQueueOpener({
    register: createPostgresRegister({
      ...connection,
      clock: systemClock,
      entropy: systemEntropy,
      log: createTestLog(),
    }),
    clock: systemClock,
    log: createTestLog(),
    observe: { gap: () => undefined, implausibleGap: () => undefined },
  });
  const claims = { hostId: "f", queueId: bytes(2), sessionId: bytes(2), leftQueues: [left(1, 0)] };
  const opened = await Promise.all([
    ...cross(1, 2),
    ...Array.from({ length: 20 }, () => others.open(create(OpenSchema, claims))),
  ]);
  expect(opened).toHaveLength(40);
});

it("rejects left queues that are malformed or named twice", async () => {
  const invalid = { code: "frame_invalid" };
  const short = { queueId: bytes(2).subarray(1), storedThrough: 1n };
  const beyond = { queueId: bytes(2), storedThrough: 2n ** 63n };
  const ackedBeyond = { queueId: bytes(2), ackedThrough: 2n ** 63n };
  for (const leftQueues of [
    [short],
    [beyond],
    [ackedBeyond],
    [left(2, 1), left(2, 1)],
    [left(1, 1)],
  ])
    await expect(open("g", 1, { leftQueues })).rejects.toMatchObject(invalid);
});
