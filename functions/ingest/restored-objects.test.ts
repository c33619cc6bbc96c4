/* A database that is restored to an earlier state under a running store, and a store that lacks what the database knew. */
import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { frame, queueId, session, through, useObjectCores } from "#tests/support/object-cores.ts";
import { sweepObjects } from "../jobs/sweep-objects.ts";
import { objectNameOf } from "../objects/object-store.ts";

const test = useObjectCores();
const { startCore, send, open, stored, gaps, counts, states, passHour, dump, objectReader } = test;

it("Q12: a database that is restored under a running store loses nothing, and stores nothing twice", async () => {
  const one = await startCore();
  const two = await startCore();
  await open(one, "a", 0, 1);
  await send(one, "a", 0, 15);
  await send(one, "b", 0, 4);
  const restore = await dump();
  // Hosts move between cores, whose names follow each other in another order, and one is new.
  await send(two, "a", 15, 25);
  await send(one, "a", 25, 35);
  await send(two, "a", 35, 40);
  await send(two, "b", 4, 9);
  await Promise.all([send(one, "new", 0, 12), send(two, "b", 9, 14)]);
  const before = await stored();
  const countsBefore = await counts();
  await restore();
  expect(await stored()).toEqual([...through("a", 15), ...through("b", 4)]);

  const opened = await Promise.all([open(one, "a", 40), open(two, "b", 14), open(two, "new", 12)]);
  expect(opened.map(({ cursor }) => cursor)).toEqual([40n, 14n, 12n]);
  expect(await stored()).toEqual(before);
  expect(await counts()).toEqual(countsBefore);
  expect(await gaps()).toEqual([]);
  await send(one, "a", 38, 45);
  expect(await stored()).toEqual([...through("a", 45), ...through("b", 14), ...through("new", 12)]);
  await two.adopter.recover();
  // The names of before the restore are invalid; the first core has written an object under one of them.
  expect(test.store.objects.size).toBe(10);
  expect(await states()).toEqual(["0: 63", "1: 9", "2: 60"]);
});

it.each([
  ["and again once core has adopted what it lacked", 1],
  ["before core records what no object has", 3],
])("Q12: records no loss of what objects have where a database is restored %s", async (_, at) => {
  const one = await startCore();
  await send(one, "a", 0, 2);
  const restore = await dump({ isNoticed: false });
  await send(one, "a", 2, 4);
  let recoveries = 0;
  const afterRecovery = async () => void (++recoveries === at && (await restore()));
  const core = await startCore({ afterRecovery });
  await restore();
  // The last record is lost with its object.
  expect(await open(core, "a", 5)).toMatchObject({ cursor: 5n });
  expect(await stored()).toEqual(through("a", 4));
  expect(await gaps()).toEqual([{ host: "a", from: "5", through: "5" }]);
});

it("lists the store for an Open that lost something, and for no other", async () => {
  const core = await startCore();
  const openLeft = (storedThrough: bigint) =>
    core.open(
      create(OpenSchema, {
        hostId: "a",
        queueId: new Uint8Array(16).fill(3),
        sessionId: session(1),
        leftQueues: [{ queueId, storedThrough, ackedThrough: storedThrough }],
      }),
    );
  await send(core, "a", 0, 5);
  const { lists } = test.store;
  await openLeft(5n);
  expect(test.store.lists).toBe(lists);
  await openLeft(6n);
  expect(test.store.lists).toBe(lists + 1);
  expect(await gaps()).toEqual([{ host: "a", from: "6", through: "6" }]);
});

it("Q12: adopts what a restored database lacks before names are drawn, whoever connects", async () => {
  const core = await startCore();
  const restore = await dump();
  await send(core, "a", 0, 2);
  await send(core, "a", 2, 3);
  await restore();
  // Its names are of the time that is lost.
  await send(core, "b", 0, 1);
  await send(await startCore(), "c", 0, 1);
  await core.adopter.recover();
  expect(await stored()).toEqual([...through("a", 3), "b 1", "c 1"]);
  const ids = await test.sql`select id from ingest_object group by id having count(*) > 1`;
  expect(ids).toEqual([]);
});

it("Q12: adopts what a restored database lacks although no host comes", async () => {
  const restore = await dump({ isNoticed: false });
  await send(await startCore(), "a", 0, 4);
  await restore();
  const core = await startCore();
  await core.adopter.settleOld();
  expect(await stored()).toEqual(through("a", 4));
  // It binds the hours since, also if its host does not come any more.
  const queues = await test.sql`select host_id, first_seen_at < now() as earlier from ingest_queue`;
  expect([...queues]).toEqual([{ host_id: "a", earlier: true }]);
  const { lists } = test.store;
  await core.adopter.settleOld();
  expect(test.store.lists).toBe(lists);
});

it("Q12: gives a queue to the copy whose records it adopts, and finds the other one forked", async () => {
  const core = await startCore();
  await open(core, "a", 0, 1);
  await send(core, "a", 0, 2, 1);
  const restore = await dump();
  await open(core, "a", 2, 3);
  await send(core, "a", 2, 4, 3);
  await open(core, "new", 0, 3);
  await send(core, "new", 0, 4, 3);
  await restore();
  const next = await startCore();
  await next.adopter.recover();
  for (const host of ["a", "new"]) {
    // The other copy has records 3 and 4 of its own, which were never stored.
    await expect(open(next, host, 2, 4)).rejects.toMatchObject({ code: "queue_forked" });
    expect(await send(next, host, 2, 5, 1)).toMatchObject({ outcome: "session_superseded" });
    expect(await open(next, host, 4, 3)).toMatchObject({ cursor: 4n });
  }
});

it("Q12: adopts what was stored between restores, the second of which has drawn more names than that", async () => {
  await send(await startCore(), "a", 0, 2);
  const restoreEarlier = await dump({ isNoticed: false });
  await send(await startCore(), "b", 0, 1);
  const restoreLater = await dump({ isNoticed: false });
  await restoreEarlier();
  await send(await startCore(), "a", 2, 4);
  await restoreLater();
  expect(await open(await startCore(), "a", 4)).toMatchObject({ cursor: 4n });
  expect(await stored()).toEqual([...through("a", 4), "b 1"]);
  expect(await gaps()).toEqual([]);
});

it("Q12: adopts all that a database lacks which is restored while core lists the store", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  await core.adopter.recover();
  const restore = await dump({ isNoticed: false });
  await send(await startCore(), "a", 2, 4);
  // Behind what the database stored last is an object without a commit, which is adopted.
  const counts = { stored: 0, rejected: 0, discarded: 1 };
  const queue = { hostId: "b", queueHex: queueId.toHex(), session: "", isNew: false, counts };
  const queues = [{ ...queue, initial: 0n, cursor: 1n }];
  const { writer } = await startCore();
  await writer.write({ queues, blocks: [], isSettled: true, now: systemClock.now() });
  const { list } = test.store;
  test.store.list = async (query) => {
    test.store.list = list;
    const listed = await list(query);
    await restore();
    return listed;
  };
  await (await startCore()).adopter.recover();
  await send(await startCore(), "c", 0, 1);
  expect(await open(core, "a", 4)).toMatchObject({ cursor: 4n });
  expect(await stored()).toEqual([...through("a", 4), "c 1"]);
  expect(await gaps()).toEqual([]);
});

it("K11: stores each envelope once where an object without a commit overlaps what was sent again", async () => {
  const core = await startCore();
  await send(core, "a", 0, 1);
  const restore = await dump();
  const failing = core.commit(frame("a", 1, 5), 1);
  test.store.beforePut = async () => {
    test.store.beforePut = async () => undefined;
    await test.sql`update ingest_object set state = 2 where state = 0`;
  };
  await failing;
  // The first object has no commit: the frame is in the next one too.
  await send(core, "a", 5, 9);
  await restore();
  await test.sql`update ingest_cursor set cursor = 3`;
  await test.sql`delete from ingest_block`;
  await core.adopter.recover();
  expect(await stored()).toEqual(through("a", 9).slice(3));
  expect(await gaps()).toEqual([]);
});

it("K11: names the range of an object that is missing, and adopts what follows it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  await send(core, "a", 2, 4);
  const missing = [...test.store.objects.keys()].at(-1) ?? "";
  await send(core, "a", 4, 6);
  test.store.objects.delete(missing);
  await restore();
  expect(await open(core, "a", 6)).toMatchObject({ cursor: 6n });
  expect(await stored()).toEqual(["a 1", "a 2", "a 5", "a 6"]);
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
});

it("K11: reports an object that was truncated, or that another database wrote, and adopts none of it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  await send(core, "a", 2, 4);
  const [name = ""] = [...test.store.objects.keys()].slice(-1);
  test.store.objects.set(name, (test.store.objects.get(name) ?? Buffer.alloc(0)).subarray(0, -9));
  await send(await startCore({ lineage: "another" }), "b", 0, 2);
  await restore();
  expect(await open(core, "a", 4)).toMatchObject({ cursor: 4n });
  expect(await gaps()).toEqual([{ host: "a", from: "3", through: "4" }]);
  expect(await stored()).toEqual(["a 1", "a 2"]);
  expect(test.log.lines.map(({ message }) => message)).toEqual(
    expect.arrayContaining([
      "not adopted: the object is damaged",
      "an object is of another database; core leaves it alone",
    ]),
  );
  expect(test.store.objects.size).toBe(3);
});

it("K11: leaves a range whose predecessor may be with its host still, and names it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const restore = await dump();
  // Both are written at once, so the second does not say that the first was committed.
  await Promise.all([send(core, "a", 2, 4), send(core, "b", 0, 1)]);
  const batch = {
    queues: [
      {
        hostId: "a",
        queueHex: queueId.toHex(),
        initial: 6n,
        cursor: 8n,
        session: "",
        isNew: false,
        counts: { stored: 0, rejected: 0, discarded: 2 },
      },
    ],
    blocks: [],
    isSettled: false,
    now: systemClock.now(),
  };
  await core.writer.write(batch);
  await restore();
  await core.adopter.recover();
  expect(await stored()).toEqual([...through("a", 4), "b 1"]);
  expect(await gaps()).toEqual([]);
  expect(test.log.lines.map(({ fields }) => fields)).toContainEqual(
    expect.objectContaining({ host_id: "a", from: "7", through: "8", cursor: "4" }),
  );
  await send(core, "a", 4, 8);
  expect(await stored()).toEqual([...through("a", 8), "b 1"]);
});

it("K11: adopts an hour-old object without a commit, and deletes it once the cursors cover it", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const parts = [];
  for (const cursor of [3n, 2n])
    parts.push(
      await core.writer.write({
        queues: [
          {
            hostId: "a",
            queueHex: queueId.toHex(),
            initial: cursor - 1n,
            cursor,
            session: "",
            isNew: false,
            counts: { stored: 0, rejected: 1, discarded: 0 },
          },
        ],
        blocks: [],
        isSettled: true,
        now: systemClock.now(),
      }),
    );
  const sweep = () =>
    sweepObjects({ db: test.db, objects: objectReader(), settleOld: core.adopter.settleOld });
  await passHour();
  await sweep();
  expect(await counts()).toMatchObject([{ cursor: "3", range_rejected: "1" }]);
  await passHour();
  await sweep();
  expect(test.store.objects.size).toBe(2);
  expect(parts).toHaveLength(2);
});

it("K11: takes an object for no restore whose name was swept while its core was frozen", async () => {
  const core = await startCore();
  await send(core, "a", 0, 2);
  const [frozen] = await test.sql`
    select id::int, encode(nonce, 'hex') as nonce from ingest_object where state = 0 order by id limit 1`;
  const sweep = () =>
    sweepObjects({ db: test.db, objects: objectReader(), settleOld: core.adopter.settleOld });
  for (let hour = 0; hour < 3; hour++) {
    await passHour();
    await sweep();
  }
  await test.store.put(objectNameOf(frozen?.id, frozen?.nonce), [Buffer.of(1)]);
  await send(await startCore(), "b", 0, 1);
  const found = await test.sql`
    select id::int, changed_at = 'epoch' as is_newer from ingest_object
    where changed_at = 'epoch' or (state = 0 and received_at is not null)`;
  expect(found).toEqual([{ id: frozen?.id, is_newer: false }]);
});

it("K11: stores each envelope once where two cores adopt while hosts go on", async () => {
  const one = await startCore();
  const two = await startCore();
  await send(one, "a", 0, 1);
  const restore = await dump();
  for (let last = 1; last < 6; last++) await send(last % 2 ? one : two, "a", last, last + 1);
  await restore();
  await Promise.all([
    one.adopter.recover(),
    two.adopter.recover(),
    send(two, "b", 0, 3),
    send(one, "a", 1, 4),
  ]);
  expect(await stored()).toEqual([...through("a", 6), ...through("b", 3)]);
});
