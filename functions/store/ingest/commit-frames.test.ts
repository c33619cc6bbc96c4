import { hash } from "node:crypto";
import type { Client } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { testRun } from "#tests/support/stored-envelopes.ts";
import { commitFrames, openCommitClient } from "./commit-frames.ts";
import type { FrameToCommit } from "./decide-frames.ts";
import { readCheckedBlock } from "./stored-envelope.ts";

const database = await useTestDatabase();

const connect = async (): Promise<Client> => {
  const client = await openCommitClient(database.url);
  onTestFinished(() => client.end());
  return client;
};
const queueId = new Uint8Array(16).fill(7);
const frame = (hostId: string): FrameToCommit => ({
  hostId,
  queueId,
  previousSequence: 0n,
  lastSequence: 1n,
  receivedAt: 1_000,
  run: testRun([{ sequence: 1n, kind: "log_line" }]),
});
const commit = (client: Client, ...hosts: string[]) =>
  commitFrames(client, hosts.map(frame), { codec: zstdCodec, now: () => 1_000 });

it("G5: two cores to which different queues of one batch are new do not deadlock, and store everything once", async () => {
  const one = await connect();
  const two = await connect();
  const three = await connect();
  const waiting = async (): Promise<number | null> => {
    const text =
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    return (await three.query(text)).rowCount;
  };
  /** Inserts a queue in an open transaction, as a core does that then fails. */
  const insertQueue = async (hostId: string): Promise<Client> => {
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
  const frames = texts.map((text, at): FrameToCommit => {
    const run = testRun([
      { sequence: BigInt(at + 1), kind: "log_line", payload: Buffer.from(text.repeat(at * 900)) },
    ]);
    return { ...frame("digests"), previousSequence: BigInt(at), lastSequence: BigInt(at + 1), run };
  });
  const needs = { codec: zstdCodec, now: () => 1_000 };
  await commitFrames(client, frames.slice(0, 2), { ...needs, hasStoredDigests: () => false });
  await commitFrames(client, frames.slice(2, 3), needs);
  await commitFrames(client, frames.slice(3), needs);
  const { rows } = await client.query(
    "select digest, raw_bytes, encoding, data from ingest_block where host_id = 'digests' order by first_sequence",
  );
  expect(rows.map(({ digest }) => digest.length)).toEqual([32, 33, 33]);
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
