import type { Client } from "pg";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { createTestDatabase } from "../../../tests/support/database.ts";
import { testRun } from "../../../tests/support/stored-envelopes.ts";
import { zstdCodec } from "../../node/ingest/zstd-codec.ts";
import { commitFrames, openCommitClient } from "./commit-frames.ts";
import type { FrameToCommit } from "./decide-frames.ts";

const database = await createTestDatabase();
afterAll(() => database.drop());

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
  const [one, two, three] = [await connect(), await connect(), await connect()];
  const waiting = async (): Promise<number | null> => {
    const text = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    return (await three.query(text)).rowCount;
  };
  /** Inserts a queue in an open transaction, as a core does that then fails. */
  const insertQueue = async (hostId: string): Promise<Client> => {
    const other = await connect();
    await other.query("begin");
    await other.query("insert into ingest_cursor (host_id, queue_id, cursor, updated_at) values ($1, $2, 0, now())", [
      hostId,
      Buffer.from(queueId),
    ]);
    return other;
  };
  const [inserterOfA, inserterOfB] = [await insertQueue("a"), await insertQueue("b")];
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
