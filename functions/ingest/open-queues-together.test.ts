import { create } from "@bufbuild/protobuf";
import { beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { type Open, OpenSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestLog } from "#tests/fakes/log.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import { createQueueOpener } from "./open-queue.ts";
import { createPostgresRegister } from "./postgres-sink.ts";

const database = await useTestDatabase();
let connection: ConnectedDatabase;
beforeAll(async () => {
  connection = database.connect();
});

const bytes = (fill: number) => new Uint8Array(16).fill(fill);
const openOf = (
  hostId: string,
  claims: Partial<
    Pick<Open, "queueId" | "sessionId" | "previousSessionIds" | "ackedThrough" | "sentThrough">
  > = {},
) => create(OpenSchema, { hostId, queueId: bytes(1), sessionId: bytes(2), ...claims });
const hostsOf = (prefix: string, hosts: number) =>
  Array.from({ length: hosts }, (_, index) => `${prefix}-${index}`);

/** Returns an opener, and how many transactions it has begun. */
const createCountedOpener = () => {
  const counted = { transactions: 0, gaps: [] as bigint[] };
  const { db } = connection;
  const countedDb: typeof db = Object.assign(Object.create(db), {
    transaction: (...args: Parameters<typeof db.transaction>) => {
      counted.transactions++;
      return db.transaction(...args);
    },
  });
  const observe = {
    gap: (sequences: bigint) => void counted.gaps.push(sequences),
    implausibleGap: () => undefined,
  };
  const log = createTestLog();
  const register = createPostgresRegister({
    db: countedDb,
    clock: systemClock,
    entropy: systemEntropy,
    log,
  });
  const opener = createQueueOpener({ register, clock: systemClock, observe, log });
  return { ...opener, counted };
};

it("opens the queues of a fleet in a few transactions, and again at their cursors", async () => {
  const { open, counted } = createCountedOpener();
  const hosts = hostsOf("fleet", 200);
  const opened = await Promise.all(hosts.map((host) => open(openOf(host))));
  expect(opened.every(({ cursor }) => cursor === 0n)).toBe(true);
  expect(counted.transactions).toBeLessThanOrEqual(8);
  await connection.sql`update ingest_cursor set cursor = 7 where host_id like 'fleet-%'`;
  const next = { sessionId: bytes(3), previousSessionIds: [bytes(2)], sentThrough: 9n };
  const again = await Promise.all(hosts.map((host) => open(openOf(host, next))));
  expect(again.map(({ hostId, cursor, sessionId }) => ({ hostId, cursor, sessionId }))).toEqual(
    hosts.map((hostId) => ({ hostId, cursor: 7n, sessionId: bytes(3) })),
  );
  const [stored] = await connection.sql`
    select count(*)::int as queues from ingest_cursor
    where host_id like 'fleet-%' and cursor = 7 and session_id = ${bytes(3)}`;
  expect(stored).toEqual({ queues: 200 });
});

it("Q11: reports no copy for an Open whose stream has ended, which may be older than the one that opened the queue", async () => {
  const { open } = createCountedOpener();
  const claims = { sessionId: bytes(3), previousSessionIds: [bytes(2)], sentThrough: 9n };
  await open(openOf("late", claims));
  const eventsOf = () =>
    connection.sql`select 1 from audit_event where details->>'host_id' = 'late'`;
  const late = openOf("late", { ackedThrough: 5n, sentThrough: 9n });
  const isDisconnected = () => true;
  await expect(open(late, isDisconnected)).rejects.toMatchObject({ code: "queue_forked" });
  expect(await eventsOf()).toHaveLength(0);
  await expect(open(late)).rejects.toMatchObject({ code: "queue_forked" });
  expect(await eventsOf()).toHaveLength(2);
  const [row] =
    await connection.sql`select session_id, cursor::int from ingest_cursor where host_id = 'late'`;
  expect(row).toMatchObject({ session_id: Buffer.from(bytes(3)), cursor: 0 });
});

it("rejects a copy among them alone, and records what a restored database has lost", async () => {
  const { open, counted } = createCountedOpener();
  const hosts = hostsOf("mixed", 20);
  await Promise.all(hosts.map((host) => open(openOf(host))));
  const results = await Promise.allSettled(
    hosts.map((host, index) => {
      if (index === 7) return open(openOf(host, { sessionId: bytes(9) }));
      return open(openOf(host, index === 11 ? { ackedThrough: 5n, sentThrough: 5n } : {}));
    }),
  );
  expect(results[7]).toMatchObject({ status: "rejected", reason: { code: "queue_forked" } });
  expect(results[11]).toMatchObject({ status: "fulfilled", value: { cursor: 5n } });
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(19);
  expect(counted.gaps).toEqual([5n]);
  const rows = await connection.sql`
    select host_id as host, cursor, encode(session_id, 'hex') as session from ingest_cursor
    where host_id in ('mixed-7', 'mixed-11') order by host_id`;
  expect(rows).toEqual([
    { host: "mixed-11", cursor: "5", session: "02".repeat(16) },
    { host: "mixed-7", cursor: "0", session: "02".repeat(16) },
  ]);
  const events = await connection.sql`
    select action, details->>'host_id' as host from audit_event where details->>'host_id' like 'mixed-%' order by action`;
  expect(events).toEqual([
    { action: "ingest.gap", host: "mixed-11" },
    { action: "queue.forked", host: "mixed-7" },
  ]);
});

it("opens the others when a batch holds one queue, which fails alone", async () => {
  const { open } = createCountedOpener();
  const hosts = hostsOf("stuck", 12);
  await Promise.all(hosts.map((host) => open(openOf(host))));
  await connection.sql.begin(async (holder) => {
    await holder`select from ingest_cursor where host_id = 'stuck-5' for update`;
    const results = await Promise.allSettled(hosts.map((host) => open(openOf(host))));
    const failed = results.flatMap(({ status }, index) => (status === "rejected" ? [index] : []));
    expect(failed).toEqual([5]);
  });
  expect(await open(openOf("stuck-5"))).toMatchObject({ cursor: 0n });
});

it("opens two queues of one host one after the other", async () => {
  const { open } = createCountedOpener();
  const opened = await Promise.all(
    [1, 2, 3].map((queue) =>
      open(openOf("one-host", { queueId: bytes(queue), sessionId: bytes(queue) })),
    ),
  );
  expect(opened.map(({ queueId }) => queueId[0])).toEqual([1, 2, 3]);
});
