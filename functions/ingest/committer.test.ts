import type { Client } from "pg";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import { findStored, testRun } from "#tests/support/stored-envelopes.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { commitDeadlineMs, openCommitClient } from "../store/ingest/commit-batch.ts";
import { cursorsOfHostMax } from "../store/ingest/queues.ts";
import { type Committer, type CommitterOptions, createCommitter } from "./committer.ts";

let database: TestDatabase;
const committers: Committer[] = [];
beforeEach(async () => {
  database = await useTestDatabase();
});
afterEach(async () => {
  for (const committer of committers.splice(0)) await committer.close();
});

const start = (options: Partial<CommitterOptions> = {}) => {
  const batches: number[] = [];
  const committer = createCommitter({
    connect: () => openCommitClient(database.url),
    clock: systemClock,
    codec: zstdCodec,
    observe: { batch: ({ frames }) => batches.push(frames) },
    ...options,
  });
  committers.push(committer);
  const send = (...of: Parameters<typeof frame>) => committer.commit(frame(...of), 1);
  return { committer, batches, send };
};

const queue = (byte: number) => new Uint8Array(16).fill(byte);

/** A frame of the sequences `from`..`to` of one queue, except `without`. */
const frame = (
  from: number,
  to: number,
  {
    hostId = "host-a",
    queueId = queue(1),
    payload = "p",
    kind = "log_line",
    without = [] as number[],
  } = {},
) => {
  const sequences = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const rows = sequences
    .filter((sequence) => !without.includes(sequence))
    .map((sequence) => ({
      sequence: BigInt(sequence),
      kind,
      source: "test",
      payload: new TextEncoder().encode(payload),
    }));
  return {
    hostId,
    queueId,
    previousSequence: BigInt(from - 1),
    lastSequence: BigInt(to),
    receivedAt: systemClock.now(),
    run: testRun(rows),
  };
};

/** Creates a frame that the database cannot store. */
const poison = { kind: "\0" };

/** Bytes that are worth a second batch in parallel. */
const parallelBytes = 8 * 1024 * 1024;

const stored = async () =>
  (await findStored(database.connect().sql)).map(
    ({ hostId, queue, sequence }) => `${hostId} ${queue.slice(0, 2)} ${sequence}`,
  );

/** Does something while another transaction has locked the cursors that fulfil a condition. */
const whileLocked = async (
  condition: string,
  act: (sql: ConnectedDatabase["sql"]) => Promise<void>,
) => {
  const { sql } = database.connect();
  await sql.begin(async (transaction) => {
    await transaction.unsafe(`select 1 from ingest_cursor where ${condition} for update`);
    await act(sql);
  });
};

/** Returns the batches that wait for a lock. */
const waitingBatches = (sql: ConnectedDatabase["sql"]) => sql<{ pid: number }[]>`
  select pid from pg_stat_activity where application_name = 'svc-server ingest' and wait_event_type = 'Lock'
    and datname = current_database()`;

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail("the promise did not reject"),
    (err) => err,
  );

it("stores a resent frame once, and the new part of one that overlaps", async () => {
  const { committer } = start();
  expect(await committer.commit(frame(1, 3), 3)).toMatchObject({
    outcome: "committed",
    cursor: 3n,
    storedRows: 3,
    storedBytes: 3,
  });
  expect(await committer.commit(frame(1, 3), 3)).toMatchObject({
    outcome: "committed",
    cursor: 3n,
    storedRows: 0,
  });
  expect(await committer.commit(frame(2, 5), 3)).toMatchObject({
    outcome: "committed",
    cursor: 5n,
    storedRows: 2,
    storedBytes: 2,
  });
  expect(await stored()).toEqual([1, 2, 3, 4, 5].map((sequence) => `host-a 01 ${sequence}`));
});

it("rejects a frame after a missing one, with the cursor, and accepts gaps inside a frame", async () => {
  const { committer, send } = start();
  await send(1, 2);
  expect(await send(4, 5)).toEqual({
    outcome: "sequence_gap",
    before: 2n,
    cursor: 2n,
    storedRows: 0,
    storedBytes: 0,
  });
  const sparse = frame(3, 9, { without: [5] });
  expect(await committer.commit(sparse, 1)).toMatchObject({ cursor: 9n, storedRows: 6 });
});

it("commits the frames that arrive while a batch runs as one batch, in order, from many queues on both connections", async () => {
  const { committer, batches } = start();
  const sent: Promise<unknown>[] = [];
  for (let round = 0; round < 20; round++)
    for (let host = 0; host < 10; host++)
      sent.push(
        committer.commit(frame(round * 2 + 1, round * 2 + 2, { hostId: `host-${host}` }), 2),
      );
  for (const outcome of await Promise.all(sent))
    expect(outcome).toMatchObject({ outcome: "committed", storedRows: 2 });
  expect((await stored()).length).toBe(400);
  expect(batches.reduce((sum, frames) => sum + frames, 0)).toBe(200);
  expect(batches.length).toBeLessThan(20);
});

it("rejects a COPY that fails at its end, and commits the next (postgres.js reports this failure as success)", async () => {
  const { sql } = database.connect();
  // A unique index on the default partition fails after the last block has been sent.
  await sql`create unique index on ingest_block_default (host_id, queue_id, first_sequence)`;
  const { send } = start();
  await send(1, 3);
  await sql`update ingest_cursor set cursor = 0`;
  const refused = failure(send(1, 500));
  const other = send(1, 1, { hostId: "host-b" });
  expect((await refused).code).toBe("23505");
  expect(await other).toMatchObject({ outcome: "committed" });
  expect(await stored()).toEqual(["host-a 01 1", "host-a 01 2", "host-a 01 3", "host-b 01 1"]);
  expect(await sql`select cursor::int from ingest_cursor where host_id = 'host-a'`).toEqual([
    { cursor: 0 },
  ]);
  await sql`update ingest_cursor set cursor = 3 where host_id = 'host-a'`;
  expect(await send(4, 4)).toMatchObject({ cursor: 4n });
});

it("rejects only the frame that cannot be stored, not the others of its batch", async () => {
  const { send } = start({ connections: 1 });
  const first = send(1, 1, { hostId: "host-0" });
  const refused = failure(send(1, 1, { hostId: "host-1", ...poison }));
  const good = send(1, 1, { hostId: "host-2" });
  expect(await first).toMatchObject({ storedRows: 1 });
  expect((await refused).code).toBe("validation_failed");
  expect(await good).toMatchObject({ storedRows: 1 });
  expect(await stored()).toEqual(["host-0 01 1", "host-2 01 1"]);
});

it("D1: rejects with database_unavailable when the server ends in mid-batch; the next frame commits on a new connection", async () => {
  const opened: Client[] = [];
  const { committer, send } = start({
    connections: 1,
    connect: async () => {
      const client = await openCommitClient(database.url);
      opened.push(client);
      return client;
    },
  });
  await send(1, 1);
  await whileLocked("true", async (sql) => {
    const cut = failure(send(2, 2));
    await expect.poll(() => waitingBatches(sql)).toHaveLength(1);
    const [batch] = await waitingBatches(sql);
    await sql`select pg_terminate_backend(${batch?.pid ?? 0})`;
    expect(await cut).toMatchObject({ code: "database_unavailable" });
    expect(committer.health().healthy).toBe(false);
  });
  expect(await send(2, 2)).toMatchObject({ cursor: 2n, storedRows: 1 });
  expect(committer.health()).toEqual({ healthy: true, detail: "Telemetry is committed." });
  expect(opened.length).toBe(2);
});

it("a queue that another core has locked does not delay the others", async () => {
  const { send } = start();
  await send(1, 1);
  await whileLocked("true", async () => {
    const held = send(2, 2);
    const other = await send(1, 1, { hostId: "host-b" });
    expect(other).toMatchObject({ outcome: "committed" });
    held.catch(() => undefined);
  });
  expect(await send(3, 3)).toMatchObject({ cursor: 3n });
});

it("takes frames of a queue after a batch of it was stuck, in whichever order its timers come", async () => {
  // After a turn of more than a second, Node may run a timer of a second before one of 50 ms.
  let isSlow = Promise.withResolvers<void>();
  const sleep: typeof systemClock.sleep = async (ms, signal) => {
    await systemClock.sleep(ms === 1_000 ? 0 : ms, signal);
    if (ms === 50) isSlow.resolve();
  };
  const { send } = start({ clock: { ...systemClock, sleep } });
  await send(1, 1);
  let held: Promise<unknown> = Promise.resolve();
  await whileLocked(`host_id = 'host-a'`, async () => {
    isSlow = Promise.withResolvers();
    held = send(2, 2);
    await isSlow.promise;
  });
  await held;
  expect(await send(3, 3)).toMatchObject({ cursor: 3n });
});

it("D8: a queue whose row stays locked delays no other queue, even one of its batch", {
  timeout: 30_000,
}, async () => {
  const { send } = start();
  const hosts = Array.from({ length: 20 }, (_, index) => `host-${index}`);
  await Promise.all(hosts.map((hostId) => send(1, 1, { hostId })));
  const [locked = "", ...others] = hosts;
  const longest: number[] = [];
  await whileLocked(`host_id = '${locked}'`, async () => {
    const held = failure(send(2, 2, { hostId: locked }));
    for (let sequence = 2; sequence < 8; sequence++) {
      const startedAt = performance.now();
      const outcomes = await Promise.all(
        others.map((hostId) => send(sequence, sequence, { hostId })),
      );
      expect(outcomes.every(({ outcome }) => outcome === "committed")).toBe(true);
      longest.push(performance.now() - startedAt);
    }
    expect(await held).toMatchObject({ code: "database_unavailable" });
    // Resent while others send, it fails alone again.
    const again = failure(send(2, 2, { hostId: locked }));
    await Promise.all(others.map((hostId) => send(8, 8, { hostId })));
    again.catch(() => undefined);
  });
  expect(Math.max(...longest)).toBeLessThan(5_000);
  expect(await send(2, 3, { hostId: locked })).toMatchObject({
    cursor: 3n,
  });
  expect((await stored()).filter((row) => row.startsWith("host-0 "))).toEqual([
    "host-0 01 1",
    "host-0 01 2",
    "host-0 01 3",
  ]);
});

it("D8: batches that wait for one that the server does not finish give their other queues back", {
  timeout: 30_000,
}, async () => {
  const { committer, send } = start();
  const sendOne = (hostId: string, sequence: number, bytes = 1) =>
    committer.commit(frame(sequence, sequence, { hostId }), bytes);
  for (const hostId of ["a", "b"]) await sendOne(hostId, 1);
  await whileLocked(`host_id = 'a'`, async () => {
    const first = sendOne("a", 2, parallelBytes);
    // Joins a second batch, which waits for the first.
    const later = [sendOne("a", 3, parallelBytes), sendOne("b", 2, parallelBytes)];
    expect(await later[1]).toMatchObject({ outcome: "committed" });
    void Promise.allSettled([first, later[0]]);
  });
  expect(await send(2, 4, { hostId: "a" })).toMatchObject({ cursor: 4n });
  expect(await stored()).toEqual(["a 01 1", "a 01 2", "a 01 3", "a 01 4", "b 01 1", "b 01 2"]);
});

it("D8: leaves no connection when its statements cannot be prepared", async () => {
  const { sql } = database.connect();
  await sql`alter table ingest_cursor rename to renamed`;
  const { send } = start();
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, at) => failure(send(1, 1, { hostId: `h-${at}` }))),
  );
  expect(outcomes.every(({ code }) => code === "42P01")).toBe(true);
  const connections = () => sql<{ count: number }[]>`select count(*)::int from pg_stat_activity
      where application_name = 'svc-server ingest' and datname = current_database()`;
  await expect.poll(async () => (await connections())[0]?.count).toBe(0);
  await sql`alter table renamed rename to ingest_cursor`;
});

it("D1: does not use an idle connection that the server has closed", async () => {
  const ended: Promise<unknown>[] = [];
  const connect = async () => {
    const client = await openCommitClient(database.url);
    ended.push(new Promise((resolve) => client.once("end", resolve)));
    return client;
  };
  const { send } = start({ connect });
  await send(1, 1);
  await database.connect().sql`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'svc-server ingest' and datname = current_database()`;
  await Promise.all(ended);
  expect(await send(2, 2)).toMatchObject({ cursor: 2n });
});

it("D1: is healthy again after an outage also when no frame comes", async () => {
  let isDown = true;
  const connect = async () => {
    if (isDown) throw Object.assign(new Error("down"), { code: "ECONNREFUSED" });
    return openCommitClient(database.url);
  };
  const log = createTestLog();
  const { committer, send } = start({ connect, log });
  for (const _ of [1, 2])
    expect(await failure(send(1, 1))).toMatchObject({
      code: "database_unavailable",
    });
  expect(committer.health().healthy).toBe(false);
  expect(log.lines).toMatchObject([{ level: "warn", fields: { err: { code: "ECONNREFUSED" } } }]);
  isDown = false;
  await expect.poll(() => committer.health().healthy, { timeout: 5_000 }).toBe(true);
});

it("D3: closes within its grace although a batch gets no answer", async () => {
  const { committer, send } = start();
  await send(1, 1);
  await whileLocked("true", async (sql) => {
    const unanswered = failure(send(2, 2));
    await expect.poll(() => waitingBatches(sql)).toHaveLength(1);
    await committer.close(50);
    expect(await unanswered).toMatchObject({ code: "database_unavailable" });
  });
});

it("D3: a batch that the server does not answer times out", async () => {
  const clock = createTestClock(systemClock.now());
  const { send } = start({ clock, connections: 1 });
  await send(1, 1);
  // The timeout of the answered batch does not destroy the connection.
  await clock.advance(60_000);
  await whileLocked("true", async (sql) => {
    const unanswered = failure(send(2, 2));
    await expect.poll(() => waitingBatches(sql)).toHaveLength(1);
    await clock.advance(30_000);
    expect(await unanswered).toMatchObject({ code: "database_unavailable" });
  });
  // Whether it committed is unknown to the sender, and known to the cursor: resent, it is stored once.
  expect(await send(2, 2)).toMatchObject({ cursor: 2n });
  expect(await stored()).toEqual(["host-a 01 1", "host-a 01 2"]);
});

it("D3: batches are at most half as large after one that exceeded its deadline, until they commit fast again", async () => {
  const clock = createTestClock(systemClock.now());
  const sizes: number[] = [];
  const { committer } = start({
    clock,
    connections: 1,
    batchBytesMax: parallelBytes,
    observe: { batch: ({ frames }) => sizes.push(frames) },
  });
  const hosts = Array.from({ length: 16 }, (_, index) => `host-${index}`);
  const [first = "", ...others] = hosts;
  // Sixteen of them are one batch.
  const sendOne = (hostId: string, sequence: number) =>
    committer.commit(frame(sequence, sequence, { hostId }), parallelBytes / 16);
  /** One frame is in a batch of its own, and the others are in the next ones. */
  const round = (sequence: number) => [
    sendOne(first, sequence),
    ...others.map((hostId) => sendOne(hostId, sequence)),
  ];
  await Promise.all(round(1));
  expect(sizes.splice(0)).toEqual([1, 15]);
  await whileLocked(`host_id <> '${first}'`, async (sql) => {
    const failed = round(2).slice(1).map(failure);
    await expect.poll(() => waitingBatches(sql)).toHaveLength(1);
    await clock.advance(commitDeadlineMs);
    for (const cause of await Promise.all(failed))
      expect(cause).toMatchObject({ code: "database_unavailable" });
  });
  sizes.splice(0);
  await Promise.all([sendOne(first, 3), ...others.map((hostId) => sendOne(hostId, 2))]);
  expect(sizes.splice(0)).toEqual([1, 7, 8]);
  // The first queue's three, and two of each other.
  expect((await stored()).length).toBe(3 + 2 * others.length);
});

it("copies two batches of one queue in parallel, and commits them in order", async () => {
  const { committer, send } = start();
  await send(1, 1);
  const sent = [];
  for (let n = 1; n <= 40; n++) sent.push(committer.commit(frame(n * 2, n * 2 + 1), parallelBytes));
  const outcomes = await Promise.all(sent);
  expect(outcomes.map(({ cursor }) => cursor)).toEqual(
    outcomes.map((_, index) => BigInt(index * 2 + 3)),
  );
  expect((await stored()).length).toBe(81);
});

it("commits a frame after at most two batches of a queue that has many more", async () => {
  const committed: string[] = [];
  const { committer } = start({ connections: 1, batchBytesMax: 4 });
  const commit = async (sequence: number, hostId: string, bytes: number) => {
    await committer.commit(frame(sequence, sequence, { hostId }), bytes);
    committed.push(hostId);
  };
  const many = Array.from({ length: 20 }, (_, at) => commit(at + 1, "many", 4));
  await Promise.all([...many, commit(1, "one", 1)]);
  expect(committed.indexOf("one")).toBeLessThanOrEqual(2);
});

it("stores nothing after a failed batch, although the next one of its queue was already copied", async () => {
  const { committer, send } = start();
  await send(1, 1);
  const good = committer.commit(frame(2, 2), parallelBytes);
  const poisoned = failure(committer.commit(frame(3, 3, poison), parallelBytes));
  const after = [4, 5, 6].map((n) => committer.commit(frame(n, n), parallelBytes));
  expect(await good).toMatchObject({ cursor: 2n });
  await poisoned;
  for (const outcome of await Promise.all(after))
    expect(outcome).toMatchObject({ outcome: "sequence_gap", cursor: 2n });
  expect(await send(3, 6)).toMatchObject({ cursor: 6n, storedRows: 4 });
  expect((await stored()).length).toBe(6);
});

it("runs a batch again when another core has moved the cursor, and stores nothing twice", async () => {
  const here = start().committer;
  const there = start().committer;
  for (let n = 1; n <= 60; n += 3) {
    await here.commit(frame(n, n), parallelBytes);
    await there.commit(frame(n + 1, n + 1), parallelBytes);
    const both = [here, there].map((committer) =>
      committer.commit(frame(n + 1, n + 2), parallelBytes),
    );
    expect((await Promise.all(both)).reduce((sum, { storedRows }) => sum + storedRows, 0)).toBe(1);
  }
  expect((await stored()).length).toBe(60);
});

it("keeps the 16 newest cursors of a host", async () => {
  const { send } = start();
  for (let n = 1; n <= cursorsOfHostMax + 3; n++) await send(1, 1, { queueId: queue(n) });
  await send(1, 1, { hostId: "host-b" });
  const rows = await database.connect().sql<{ host_id: string; queues: string[] }[]>`
      select host_id, count(*)::int as cursors, min(get_byte(queue_id, 0)) as oldest from ingest_cursor group by host_id
      order by host_id`;
  expect(rows).toEqual([
    { host_id: "host-a", cursors: 16, oldest: 4 },
    { host_id: "host-b", cursors: 1, oldest: 1 },
  ]);
});

it("updates last_envelope_at with the commit, also when nothing of a frame was stored, but not for a resend", async () => {
  let now = 1_800_000_000_000;
  const { committer, send } = start({ clock: { ...systemClock, now: () => now } });
  const discarded = frame(1, 4, { without: [1, 2, 3, 4] });
  await committer.commit(discarded, 1);
  const { sql } = database.connect();
  const read = async () =>
    (await sql`select last_envelope_at from ingest_host`)[0]?.last_envelope_at;
  const first = await read();
  now += 5_000;
  await committer.commit(discarded, 1);
  expect(await read()).toEqual(first);
  await send(5, 5);
  expect(Date.parse(await read()) - Date.parse(first)).toBe(5_000);
});
