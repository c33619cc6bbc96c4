import { hash } from "node:crypto";
import type { Client } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { compressRun, testRun } from "#tests/support/stored-envelopes.ts";
import {
  commitBatch,
  commitBatchAhead,
  createTouchedHosts,
  openCommitClient,
} from "./commit-batch.ts";
import { queueKey } from "./decide-batch.ts";
import { readCheckedBlock } from "./stored-envelope.ts";

const database = await useTestDatabase();

const connect = async () => {
  const client = await openCommitClient(database.url);
  onTestFinished(() => client.end());
  return client;
};
const queueId = new Uint8Array(16).fill(7);
const needs = { codec: zstdCodec, now: () => 1_000 };
const frame = (hostId: string, sequence = 1n) => ({
  hostId,
  queueId,
  previousSequence: sequence - 1n,
  lastSequence: sequence,
  receivedAt: 1_000,
  run: testRun([{ sequence, kind: "log_line" }]),
});
const commit = (client: Client, ...hosts: string[]) =>
  commitBatch(
    client,
    hosts.map((host) => frame(host)),
    needs,
  );

it("G5: two cores to which different queues of one batch are new do not deadlock, and store everything once", async () => {
  const one = await connect();
  const two = await connect();
  const three = await connect();
  const waiting = async () => {
    const text =
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    return (await three.query(text)).rowCount;
  };
  /** Inserts a queue in an open transaction, as a core does that then fails. */
  const insertQueue = async (hostId: string) => {
    const other = await connect();
    await other.query("begin");
    await other.query(
      "insert into ingest_cursor (host_id, queue_id, cursor, updated_at) values ($1, $2, 0, now())",
      [hostId, Buffer.from(queueId)],
    );
    return other;
  };
  const inserterOfA = await insertQueue("a");
  const inserterOfB = await insertQueue("b");
  // To `one` both "b" and "c" are new, and it waits for "b"; then "c" exists for the batches after it.
  const early = commit(one, "c", "b");
  await expect.poll(waiting).toBe(1);
  await commit(three, "c");
  const late = commit(two, "a", "b", "c");
  await expect.poll(waiting).toBe(2);
  await inserterOfB.query("rollback");
  const ended = early.then(() => 2);
  await expect.poll(() => Promise.race([ended, waiting()])).toBe(2);
  await inserterOfA.query("rollback");
  const outcomes = [...(await early), ...(await late)];
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(Array(5).fill("committed"));
  const { rows } = await three.query("select host_id from ingest_block order by host_id");
  expect(rows.map(({ host_id }) => host_id)).toEqual(["a", "b", "c"]);
});

it("continues the digest of a range by digests of stored bytes, and of envelopes where an older core serves", async () => {
  const client = await connect();
  const sha256 = (...parts: Uint8Array[]) => hash("sha256", Buffer.concat(parts), "buffer");
  const texts = ["one", "two", "three", "four"];
  const frames = texts.map((text, at) => {
    const run = testRun([
      { sequence: BigInt(at + 1), kind: "log_line", payload: Buffer.from(text.repeat(at * 900)) },
    ]);
    const sent = at === 1 ? compressRun(run) : run;
    return {
      ...frame("digests"),
      previousSequence: BigInt(at),
      lastSequence: BigInt(at + 1),
      run: sent,
    };
  });
  await commitBatch(client, frames.slice(0, 2), { ...needs, hasStoredDigests: () => false });
  await commitBatch(client, frames.slice(2, 3), needs);
  await commitBatch(client, frames.slice(3), needs);
  const { rows } = await client.query(
    "select digest, raw_bytes, encoding, data from ingest_block where host_id = 'digests' order by first_sequence",
  );
  expect(rows.map(({ digest }) => digest.length)).toEqual([32, 32, 33, 33]);
  const place = { hostId: "digests", queueId, receivedAt: 0n };
  for (const { digest, raw_bytes: rawBytes, encoding, data } of rows) {
    const block = { ...place, rawBytes, encoding, data, digest };
    expect(readCheckedBlock(block, zstdCodec)).not.toEqual([]);
    const damaged = Buffer.from(digest).fill(7, digest.length - 1);
    expect(() => readCheckedBlock({ ...block, digest: damaged }, zstdCodec)).toThrow(
      "another digest",
    );
  }
  const cursor = await client.query(
    "select range_digest from ingest_cursor where host_id = 'digests'",
  );
  const chain = rows.reduce((before, { digest }) => sha256(before, digest), Buffer.alloc(0));
  expect(cursor.rows[0]?.range_digest.toString("hex")).toBe(chain.toString("hex"));
  // As several blocks of a queue in one batch continue it.
  const all = await client.query("select continue_digest(null, $1) as digest", [
    rows.map(({ digest }) => digest.toString("hex")),
  ]);
  expect(all.rows[0]?.digest.toString("hex")).toBe(chain.toString("hex"));
});

it("stores of a compressed frame what is above the cursor, compressed", async () => {
  const client = await connect();
  const payload = Buffer.from("p".repeat(5_000));
  const run = testRun([1n, 2n, 3n].map((sequence) => ({ sequence, kind: "log_line", payload })));
  const sent = { ...frame("cut"), lastSequence: 3n, run: compressRun(run) };
  await commitBatch(client, [frame("cut"), sent, sent], needs);
  const { rows } = await client.query(
    "select first_sequence::int, last_sequence::int, raw_bytes, encoding from ingest_block where host_id = 'cut' order by 1",
  );
  const stored = {
    first_sequence: 2,
    last_sequence: 3,
    raw_bytes: expect.any(Number),
    encoding: 2,
  };
  expect(rows).toMatchObject([{ last_sequence: 1 }, stored]);
});

it("counts what is committed ahead, and nothing when the cursor was elsewhere", async () => {
  const client = await connect();
  const ahead = (sequence: bigint) =>
    commitBatchAhead(client, [frame("ahead", sequence)], {
      ...needs,
      expected: new Map([[queueKey({ hostId: "ahead", queueId }), sequence - 1n]]),
      turn: undefined,
    });
  await commitBatch(client, [frame("ahead")], needs);
  expect(await ahead(2n)).toHaveLength(1);
  expect(await ahead(6n)).toBeUndefined();
  const { rows } = await client.query(
    "select envelopes::int from ingest_hour where host_id = 'ahead'",
  );
  expect(rows).toEqual([{ envelopes: 2 }]);
});

/* The transaction ids of a queue's rows rise with their sequence, whatever overlaps: the export reads envelopes in their order. */

const readIds = async (client: Client, hostId: string) => {
  const text = "select xid from ingest_block where host_id = $1 order by first_sequence";
  const { rows } = await client.query(text, [hostId]);
  return rows.map(({ xid }) => Number(xid));
};
const isRising = (ids: readonly number[]) =>
  ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? 0));

it("stores a batch again that copied its rows before the one that it follows", async () => {
  const one = await connect();
  const two = await connect();
  await commitBatch(one, [frame("h")], needs);
  const turn = Promise.withResolvers<void>();
  const expected = new Map([[queueKey({ hostId: "h", queueId }), 2n]]);
  const ahead = commitBatchAhead(two, [frame("h", 3n)], {
    ...needs,
    expected,
    turn: turn.promise,
  });
  // Its transaction has an id once it has copied a row.
  const copying =
    "select from pg_stat_activity where datname = current_database() and backend_xid is not null";
  await expect.poll(async () => (await one.query(copying)).rowCount).toBe(1);
  await commitBatch(one, [frame("h", 2n)], needs);
  turn.resolve();
  expect(await ahead).toBeUndefined();
  const [outcome] = await commitBatch(two, [frame("h", 3n)], needs);
  expect(outcome?.outcome).toBe("committed");
  const ids = await readIds(one, "h");
  expect(ids).toHaveLength(3);
  expect(isRising(ids)).toBe(true);
});

it.each(["known", "new"])(
  "commits a batch of %s queues that another transaction has overtaken in a later one",
  async (kind) => {
    const one = await connect();
    const two = await connect();
    const three = await connect();
    const [a, b, c] = ["a", "b", "c"].map((name) => `${name}-${kind}`) as [string, string, string];
    await commitBatch(one, [frame(a), frame(b), frame(c)], needs);
    await two.query("begin");
    await two.query("select from ingest_cursor where host_id = $1 for update", [b]);
    const others = kind === "new" ? [frame(`d-${kind}`)] : [];
    const late = commitBatch(one, [frame(a, 2n), frame(b, 2n), frame(c, 3n), ...others], needs);
    const waiting =
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    await expect.poll(async () => (await three.query(waiting)).rowCount).toBe(1);
    await commitBatch(three, [frame(c, 2n)], needs);
    await two.query("rollback");
    expect((await late).map(({ outcome }) => outcome)).not.toContain("queue_forked");
    await commitBatch(one, [frame(c, 3n)], needs);
    const ids = await readIds(one, c);
    expect(ids).toHaveLength(3);
    expect(isRising(ids)).toBe(true);
  },
);

it("stores the time of a host's last envelope once a second, by each connection, and only with a commit", async () => {
  const one = await connect();
  const other = await connect();
  const touchedBy = createTouchedHosts();
  /** Returns the time that is stored then, and the transaction that stored it. */
  const commitAt = async (client: Client, now: number, sequence: bigint, kind = "log_line") => {
    const sent = { ...frame("touched", sequence), run: testRun([{ sequence, kind }]) };
    await commitBatch(client, [sent], { ...needs, now: () => now, touchedBy }).catch(() => null);
    const { rows } = await other.query(
      "select extract(epoch from last_envelope_at) * 1000 as at, xmin::text from ingest_host where host_id = 'touched'",
    );
    return rows.map(({ at, xmin }) => ({ at: Number(at), xmin }))[0];
  };
  expect(await commitAt(one, 1_000, 1n, "\0")).toBeUndefined();
  const first = await commitAt(one, 1_100, 1n);
  expect(first?.at).toBe(1_100);
  expect(await commitAt(one, 1_999, 2n)).toEqual(first);
  expect((await commitAt(other, 1_500, 3n))?.at).toBe(1_500);
  expect((await commitAt(one, 2_000, 4n))?.at).toBe(2_000);
});
