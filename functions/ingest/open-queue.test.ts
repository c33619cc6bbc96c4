import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { frame, newQueue, openSession, testHost } from "#tests/support/frames.ts";
import {
  connectInTest,
  cursorsOf,
  forked,
  forwardAll,
  openForward,
  submit,
  superseded,
} from "#tests/support/grpc-client.ts";
import { ingestPaths, startTestIngest, type TestIngest } from "#tests/support/ingest.ts";
import { findStored } from "#tests/support/stored-envelopes.ts";
import { noteSink } from "../store/ingest/sinks.ts";

let test: TestIngest;
let client: Client;

const storedSequences = async (queue: Buffer) => {
  const found = await findStored(test.connection.sql);
  return found
    .filter((each) => each.queue === queue.toString("hex"))
    .map(({ sequence }) => Number(sequence));
};

type Client = ReturnType<typeof connectInTest>;
/** Opens a queue with a session, and sends its first frame. */
const begin = (queue: Buffer, session_id: Buffer, last: number) =>
  forwardAll(client, [openSession(queue, { session_id }), { frame: frame(queue, 1, last) }]);
const expectForked = async (sent: Parameters<typeof forwardAll>[1]) =>
  expect((await forwardAll(client, sent)).error).toMatchObject(forked);

/** Sends the messages of a stream; returns the cursors of the answers. */
const cursorsFor = async (sent: Parameters<typeof forwardAll>[1]) =>
  cursorsOf(await forwardAll(client, sent));

/** Returns the audit events of a queue, by their action. */
const eventsOf = (queue: Buffer) => test.connection.sql<
  { action: string; target_type: string; target_id: string; outcome: string; details: object }[]
>`
  select action, target_type, target_id, outcome, details - 'host_id' - 'queue_id' as details from audit_event
  where details->>'queue_id' = ${queue.toString("hex")} order by action`;

/** Sets a queue to the state that a restore of the database to before `cursor` leaves. */
const restoreDatabase = async (queue: Buffer, cursor: number, session: Buffer) => {
  await test.connection
    .sql`delete from ingest_block where queue_id = ${queue} and last_sequence > ${cursor}`;
  await test.connection
    .sql`update ingest_cursor set cursor = ${cursor}, session_id = ${session} where queue_id = ${queue}`;
};

describe.each(ingestPaths)("opening a queue, on the $path", ({ fastPath }) => {
  beforeAll(async () => {
    test = await startTestIngest({ needs: { fastPath } });
  });
  afterAll(() => test.close());
  beforeEach(async () => {
    client = connectInTest(test, await test.client({}));
  });

  it("accepts a session whose history contains the one before, answered or not", async () => {
    const queue = newQueue();
    const first = newQueue();
    const lost = newQueue();
    const third = newQueue();
    await begin(queue, first, 2);
    const next = openSession(queue, { session_id: third, previous_session_ids: [first, lost] });
    expect(await cursorsFor([next, { frame: frame(queue, 3, 4) }])).toEqual(["2", "4"]);
    expect(await cursorsFor([next])).toEqual(["4"]);
    expect(await eventsOf(queue)).toEqual([]);
  });

  it("Q11: rejects a copy whose history lacks the newest session, and records it once", async () => {
    const queue = newQueue();
    const shared = newQueue();
    const mine = newQueue();
    const copy = newQueue();
    await begin(queue, shared, 2);
    const own = openSession(queue, { session_id: mine, previous_session_ids: [shared] });
    await forwardAll(client, [own, { frame: frame(queue, 3, 6) }]);
    const other = openSession(queue, { session_id: copy, previous_session_ids: [shared] });
    await expectForked([other, { frame: frame(queue, 3, 4) }]);
    expect((await submit(client, frame(queue, 3, 4), other.open)).error).toMatchObject(forked);
    expect(await storedSequences(queue)).toEqual([1, 2, 3, 4, 5, 6]);
    const event = {
      action: "queue.forked",
      target_type: "host",
      target_id: testHost,
      outcome: "failure",
      details: { cursor: 6 },
    };
    expect(await eventsOf(queue)).toEqual([event, event]);
    expect(test.observed).toContainEqual({ name: "refused", facts: "queue_forked" });
  });

  it("Q11: ends the open stream of a copy at its next frame once another copy has opened the queue, and rejects it when it opens", async () => {
    const queue = newQueue();
    const shared = newQueue();
    const copy = newQueue();
    const older = openForward(client);
    older.call.write(openSession(queue, { session_id: shared }));
    older.call.write({ frame: frame(queue, 1, 2) });
    await expect.poll(() => older.messages.length).toBe(2);
    const newer = await forwardAll(client, [
      openSession(queue, { session_id: copy, previous_session_ids: [shared] }),
      { frame: frame(queue, 3, 4) },
    ]);
    expect(cursorsOf(newer)).toEqual(["2", "4"]);
    // A resend of what the other has stored must not be acknowledged either: it holds other envelopes.
    older.call.write({ frame: frame(queue, 3, 3) });
    older.call.write({ frame: frame(queue, 4, 4) });
    expect((await older.ended).error).toMatchObject(superseded);
    // It may be late, of a sender that has opened the queue itself: no copy is reported yet.
    expect(await eventsOf(queue)).toEqual([]);
    const again = openSession(queue, { session_id: newQueue(), previous_session_ids: [shared] });
    await expectForked([again]);
    expect(await storedSequences(queue)).toEqual([1, 2, 3, 4]);
    expect((await eventsOf(queue)).map(({ action }) => action)).toEqual(["queue.forked"]);
  });

  it("Q11: rejects a queue whose cursor is above what it can have sent", async () => {
    const queue = newQueue();
    const session = newQueue();
    const restored = newQueue();
    await begin(queue, session, 6);
    const claims = { session_id: restored, previous_session_ids: [session] };
    expect(
      (await forwardAll(client, [openSession(queue, { ...claims, sent_through: 5 })])).error,
    ).toMatchObject(forked);
    expect(await cursorsFor([openSession(queue, { ...claims, sent_through: 6 })])).toEqual(["6"]);
  });

  it("Q12: moves the cursor over what a restored database lost, and records the range once", async () => {
    const queue = newQueue();
    const before = newQueue();
    const after = newQueue();
    const again = newQueue();
    await begin(queue, before, 3);
    const claims = { session_id: after, previous_session_ids: [before] };
    await forwardAll(client, [openSession(queue, claims), { frame: frame(queue, 4, 10) }]);
    await restoreDatabase(queue, 3, before);
    const reopened = openSession(queue, {
      session_id: again,
      previous_session_ids: [before, after],
      acked_through: 8,
      sent_through: 10,
    });
    const answer = await forwardAll(client, [reopened, { frame: frame(queue, 9, 11) }]);
    expect(cursorsOf(answer)).toEqual(["8", "11"]);
    expect(await cursorsFor([{ open: { ...reopened.open, sent_through: 11 } }])).toEqual(["11"]);
    expect(await storedSequences(queue)).toEqual([1, 2, 3, 9, 10, 11]);
    expect(await eventsOf(queue)).toMatchObject([
      { action: "ingest.gap", details: { from: 4, through: 8 } },
    ]);
    expect(test.observed).toContainEqual({ name: "gap", facts: 5n });
  });

  it("Q12: answers the cursors of queues that were left, and records what the database lost of them", async () => {
    const known = newQueue();
    const lost = newQueue();
    const queue = newQueue();
    for (const each of [known, lost]) await begin(each, newQueue(), 3);
    const leftQueues = [lost, known].map((queue_id) => ({
      queue_id,
      stored_through: queue_id === lost ? 5 : 2,
    }));
    const opened = await forwardAll(client, [
      openSession(queue, { session_id: newQueue(), left_queues: leftQueues }),
    ]);
    expect(opened.messages).toMatchObject([{ opened: { cursor: "0", left_cursors: ["3", "3"] } }]);
    expect(await eventsOf(lost)).toMatchObject([
      { action: "ingest.gap", details: { from: 4, through: 5 } },
    ]);
    expect(await eventsOf(known)).toEqual([]);
  });

  it("K9: counts nothing as lost of a queue that was in JetStream since", async () => {
    const known = newQueue();
    const unknown = newQueue();
    const before = newQueue();
    const after = newQueue();
    await begin(known, before, 3);
    const { db, sql } = test.connection;
    await sql`delete from ingest_gap`;
    // Core stored elsewhere, and is back.
    await sql`insert into ingest_sink (kind) values ('nats')`;
    await noteSink(db, new Date(Date.now() + 2_000));
    for (const queue of [known, unknown]) {
      const reopened = openSession(queue, {
        session_id: after,
        previous_session_ids: [before],
        acked_through: 8,
      });
      expect(await cursorsFor([reopened, { frame: frame(queue, 9, 10) }])).toEqual(["8", "10"]);
      expect(await eventsOf(queue)).toEqual([]);
    }
    expect(await sql`select 1 from ingest_gap`).toHaveLength(0);
    const uncounted = await sql`select 1 from ingest_cursor
      where queue_id in (${Uint8Array.from(known)}, ${Uint8Array.from(unknown)}) and counted_through < cursor`;
    expect(uncounted).toHaveLength(2);
    await sql`delete from ingest_sink`;
  });

  it("Q12: adds up what a host has lost, however much it claims", async () => {
    const gaps = async () => [
      ...(await test.connection.sql`
        select ranges, records_max as most from ingest_gap where host_id = ${testHost}`),
    ];
    await test.connection.sql`delete from ingest_gap`;
    const claim = (acked_through: number | string) =>
      forwardAll(client, [
        openSession(newQueue(), { session_id: newQueue(), acked_through: acked_through as number }),
      ]);
    await claim(3);
    expect(await gaps()).toEqual([{ ranges: "1", most: "3" }]);
    await claim(4);
    expect(await gaps()).toEqual([{ ranges: "2", most: "7" }]);
    await claim(10_000_000_000);
    expect(await gaps()).toEqual([{ ranges: "3", most: "10000000007" }]);
  });

  it("Q12: a claim of more than a host can have sent is recorded, and added to no total", async () => {
    const observed = (name: string) => test.observed.filter((one) => one.name === name).length;
    await test.connection.sql`delete from ingest_gap`;
    const before = { gap: observed("gap"), implausible: observed("implausibleGap") };
    const claims = [
      { acked_through: "9223372036854775807" as never },
      { acked_through: 10_000_000_001 },
    ];
    for (const claim of claims) {
      const queue = newQueue();
      const opened = await forwardAll(client, [
        openSession(queue, { session_id: newQueue(), ...claim }),
      ]);
      expect(cursorsOf(opened)).toEqual([String(claim.acked_through)]);
      const [event] = await test.connection.sql`
        select action, reason_code, details->>'through' as through from audit_event
        where details->>'queue_id' = ${queue.toString("hex")}`;
      const through = String(claim.acked_through);
      expect(event).toEqual({ action: "ingest.gap", reason_code: "implausible_claim", through });
    }
    expect(await test.connection.sql`select 1 from ingest_gap`).toHaveLength(0);
    expect(observed("gap") - before.gap).toBe(0);
    expect(observed("implausibleGap") - before.implausible).toBe(2);
  });

  it("Q12: goes on with a stream that was open during the restore by asking it to open again", async () => {
    const queue = newQueue();
    const session = newQueue();
    const stream = openForward(client);
    stream.call.write(openSession(queue, { session_id: session }));
    stream.call.write({ frame: frame(queue, 1, 3) });
    await expect.poll(() => stream.messages.length).toBe(2);
    await test.connection.sql`delete from ingest_cursor where queue_id = ${queue}`;
    stream.call.write({ frame: frame(queue, 4, 4) });
    expect((await stream.ended).error).toMatchObject({ reason: "sequence_gap", cursor: "0" });
    const again = { session_id: newQueue(), previous_session_ids: [session], acked_through: 3 };
    expect(await cursorsFor([openSession(queue, again)])).toEqual(["3"]);
    expect(await eventsOf(queue)).toMatchObject([
      { action: "ingest.gap", details: { from: 1, through: 3 } },
    ]);
  });

  it("fences a Submit that carries an Open, and not one without", async () => {
    const queue = newQueue();
    const session = newQueue();
    const next = newQueue();
    const first = await submit(
      client,
      frame(queue, 1, 2),
      openSession(queue, { session_id: session }).open,
    );
    expect(cursorsOf(first)).toEqual(["2"]);
    const second = openSession(queue, { session_id: next, previous_session_ids: [session] }).open;
    expect(cursorsOf(await submit(client, frame(queue, 3, 4), second))).toEqual(["4"]);
    const stale = openSession(queue, { session_id: session }).open;
    expect((await submit(client, frame(queue, 5, 5), stale)).error).toMatchObject(forked);
    expect(cursorsOf(await submit(client, frame(queue, 5, 5)))).toEqual(["5"]);
  });

  it("rejects claims that are no sessions, and frames of another queue than open's", async () => {
    const queue = newQueue();
    const session = newQueue();
    const invalid = { code: status.INVALID_ARGUMENT, reason: "frame_invalid" };
    const short = session.subarray(1);
    const claims = [
      { session_id: short },
      { session_id: session, previous_session_ids: [short] },
      { session_id: session, previous_session_ids: Array.from({ length: 17 }, newQueue) },
      { session_id: session, acked_through: "9223372036854775808" as never },
    ];
    for (const claim of claims)
      expect((await forwardAll(client, [openSession(queue, claim)])).error).toMatchObject(invalid);
    const other = [openSession(queue, { session_id: session }), { frame: frame(newQueue(), 1, 1) }];
    expect((await forwardAll(client, other)).error).toMatchObject(invalid);
    expect(
      (
        await submit(
          client,
          frame(newQueue(), 1, 1),
          other[0] && openSession(queue, { session_id: session }).open,
        )
      ).error,
    ).toMatchObject(invalid);
  });

  it("Q12: adds up no more claims of a host than it records, however many queues it names", async () => {
    for (let opened = 0; opened < 101; opened++)
      await forwardAll(client, [
        openSession(newQueue(), { session_id: newQueue(), acked_through: 1_000_000_000 }),
      ]);
    const [row] = await test.connection.sql`
      select (select count(*)::int from audit_event where action in ('ingest.gap', 'queue.forked')) as events,
        (select ranges::int from ingest_gap) as ranges`;
    expect(row?.events).toBe(100);
    expect(row?.ranges).toBeLessThan(100);
    expect(test.observed.map(({ name }) => name)).toContain("implausibleGap");
  });
});
