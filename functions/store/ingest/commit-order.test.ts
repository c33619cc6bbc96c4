import type { Client } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { testRun } from "#tests/support/stored-envelopes.ts";
import { commitFrames, commitFramesAhead, openCommitClient } from "./commit-frames.ts";
import { type FrameToCommit, queueKey } from "./decide-frames.ts";

/* The transaction ids of a queue's rows rise with their sequence, whatever overlaps: the export reads envelopes in their order. */

const database = await useTestDatabase();

const connect = async (): Promise<Client> => {
  const client = await openCommitClient(database.url);
  onTestFinished(() => client.end());
  return client;
};
const queueId = new Uint8Array(16).fill(7);
const needs = { codec: zstdCodec, now: () => 1_000 };
const frame = (hostId: string, sequence: bigint): FrameToCommit => ({
  hostId,
  queueId,
  previousSequence: sequence - 1n,
  lastSequence: sequence,
  receivedAt: 1_000,
  run: testRun([{ sequence, kind: "log_line" }]),
});
const readIds = async (client: Client, hostId: string): Promise<number[]> => {
  const text = "select xid from ingest_block where host_id = $1 order by first_sequence";
  const { rows } = await client.query<{ xid: string }>(text, [hostId]);
  return rows.map(({ xid }) => Number(xid));
};
const isRising = (ids: readonly number[]) =>
  ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? 0));

it("stores a batch again that copied its rows before the one that it follows", async () => {
  const one = await connect();
  const two = await connect();
  await commitFrames(one, [frame("h", 1n)], needs);
  const turn = Promise.withResolvers<void>();
  const expected = new Map([[queueKey("h", queueId), 2n]]);
  const ahead = commitFramesAhead(two, [frame("h", 3n)], {
    ...needs,
    expected,
    turn: turn.promise,
  });
  // Its transaction has an id once it has copied a row.
  const copying =
    "select from pg_stat_activity where datname = current_database() and backend_xid is not null";
  await expect.poll(async () => (await one.query(copying)).rowCount).toBe(1);
  await commitFrames(one, [frame("h", 2n)], needs);
  turn.resolve();
  expect(await ahead).toBeUndefined();
  const [outcome] = await commitFrames(two, [frame("h", 3n)], needs);
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
    await commitFrames(one, [frame(a, 1n), frame(b, 1n), frame(c, 1n)], needs);
    await two.query("begin");
    await two.query("select from ingest_cursor where host_id = $1 for update", [b]);
    const others = kind === "new" ? [frame(`d-${kind}`, 1n)] : [];
    const late = commitFrames(one, [frame(a, 2n), frame(b, 2n), frame(c, 3n), ...others], needs);
    const waiting =
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    await expect.poll(async () => (await three.query(waiting)).rowCount).toBe(1);
    await commitFrames(three, [frame(c, 2n)], needs);
    await two.query("rollback");
    expect((await late).map(({ outcome }) => outcome)).not.toContain("queue_forked");
    await commitFrames(one, [frame(c, 3n)], needs);
    const ids = await readIds(one, c);
    expect(ids).toHaveLength(3);
    expect(isRising(ids)).toBe(true);
  },
);
