/** Holds the models of a simulation to what they stand for: the same calls on both have the same results. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import type { Client } from "pg";
import { expect, it } from "vitest";
import { batchRecords } from "#collector/queue/envelope.ts";
import { unsent } from "#collector/queue/format.ts";
import { openStore, type QueueStore } from "#collector/queue/store.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import {
  commitBatch,
  commitBatchAhead,
  openCommitClient,
} from "#functions/store/ingest/commit-batch.ts";
import { queueKey } from "#functions/store/ingest/decide-batch.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { useTestDatabase } from "../support/database.ts";
import { testRecord } from "../support/queue.ts";
import { findStored, testRun } from "../support/stored-envelopes.ts";
import { connectCommitClient } from "./commit-client.ts";
import { createDatabaseServer } from "./database.ts";
import { createDisk, openDiskStore } from "./disk.ts";
import type { Tables } from "./tables.ts";
import { inWorld } from "./world.ts";

const reading = { ageMs: 1_000, wallMs: 2_000 };
const storeStep = fc.oneof(
  fc.record({ act: fc.constant("insert"), at: fc.integer({ min: 1, max: 6 }) }),
  fc.record({
    act: fc.constantFrom("delete", "read", "set aside"),
    at: fc.integer({ min: 0, max: 30 }),
  }),
  fc.record({ act: fc.constant("reopen"), at: fc.constant(0) }),
);

/** Does a step to a store, and returns what can be seen of it then. */
const seenAfter = (store: QueueStore, { act, at }: { act: string; at: number }) => {
  let result: unknown;
  if (act === "read")
    result = store.read(at, 5, 1_000).found.map(({ envelopes, ...range }) => ({
      ...range,
      envelopes: Buffer.from(envelopes).toString("hex"),
    }));
  else if (act !== "reopen")
    store.transaction((transaction) => {
      if (act === "insert")
        transaction.insert(
          batchRecords(
            Array.from({ length: at }, (_, index) => testRecord(`record ${index}`, 10 * at)),
          ),
        );
      else if (act === "delete") result = transaction.deleteThrough(at);
      else
        result = transaction.moveToDeadLetters(at, "rejected", "", {
          recordsMax: 100,
          bytesMax: 1_000_000,
        });
    });
  const { nextSequence, records, bytes, deadLetters } = store.state;
  return {
    result,
    nextSequence,
    records,
    bytes,
    deadLetters,
    oldest: store.oldestAgeMs(),
    first: store.firstSequenceSince(0),
  };
};

it("the disk keeps what the queue's store keeps", () => {
  const entropy = createSeededEntropy(1);
  const origin = () => ({
    queueId: entropy.bytes(16),
    nextSequence: 1,
    droppedRecords: 0,
    deadLetters: 0,
    quarantined: 0,
    quarantinedRecords: 0,
    ...reading,
    hostId: "",
    ...unsent,
    forks: 0,
    checkpoints: [],
  });
  const property = fc.property(fc.array(storeStep, { maxLength: 30 }), (steps) => {
    const dir = mkdtempSync(join(tmpdir(), "model-disk-"));
    const disk = createDisk();
    const openReal = () => openStore(dir, origin, () => reading);
    const openModel = () => openDiskStore(disk, { entropy, now: () => reading });
    let real = openReal();
    let model = openModel();
    try {
      for (const step of steps) {
        if (step.act === "reopen") {
          real.close();
          real = openReal();
          model = openModel();
        }
        expect(seenAfter(model, step)).toEqual(seenAfter(real, step));
      }
    } finally {
      real.close();
      rmSync(dir, { recursive: true });
    }
  });
  fc.assert(property, { numRuns: 30 });
});

interface CommitStep {
  isAhead: boolean;
  frames: { host: string; session: number; from: number; count: number }[];
}
const commitStep: fc.Arbitrary<CommitStep> = fc.record({
  isAhead: fc.boolean(),
  frames: fc.array(
    fc.record({
      host: fc.constantFrom("a", 'it\'s "b"\\'),
      session: fc.integer({ min: 0, max: 1 }),
      from: fc.integer({ min: 0, max: 8 }),
      count: fc.integer({ min: 0, max: 4 }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
});
const queueId = new Uint8Array(16).fill(7);
const frameOf = ({ host, session, from, count }: CommitStep["frames"][number]) => ({
  hostId: host,
  queueId,
  previousSequence: BigInt(from),
  lastSequence: BigInt(from + count),
  // The first has no session, and is not fenced; no queue was opened for the second.
  ...(session === 0 ? {} : { sessionId: new Uint8Array(16).fill(session) }),
  receivedAt: 1_000,
  run: testRun(
    Array.from({ length: count }, (_, index) => ({
      sequence: BigInt(from + index + 1),
      kind: "log_line",
      source: "file",
      payload: Buffer.from(`${host} ${from + index + 1}`),
    })),
  ),
});

/** Commits the frames of each step, one after the other, and returns what each resolved with. */
const outcomesOf = async (client: Client, steps: readonly CommitStep[]) => {
  const outcomes: unknown[] = [];
  for (const { isAhead, frames } of steps) {
    const batch = frames.map(frameOf);
    const expected = new Map(batch.map((frame) => [queueKey(frame), frame.previousSequence]));
    const needs = { codec: zstdCodec, now: () => 1_000 };
    outcomes.push(
      isAhead
        ? await commitBatchAhead(client, batch, { ...needs, expected, turn: undefined })
        : await commitBatch(client, batch, needs),
    );
  }
  return outcomes;
};

it("the database commits what PostgreSQL commits", async () => {
  const database = await useTestDatabase();
  const client = await openCommitClient(database.url);
  const connection = database.connect();
  const property = fc.asyncProperty(
    fc.array(commitStep, { minLength: 1, maxLength: 8 }),
    async (steps) => {
      await client.query("truncate ingest_cursor; truncate ingest_block");
      const real = await outcomesOf(client, steps);
      const cursors = await client.query(
        "select host_id, cursor::int as cursor from ingest_cursor order by host_id",
      );
      const rows = (await findStored(connection.sql)).map(({ hostId, sequence, text }) => ({
        host_id: hostId,
        sequence: Number(sequence),
        text,
      }));
      const model = await inWorld(1, async (world) => {
        const server = createDatabaseServer(world);
        const needs = {
          server,
          core: world.process("core"),
          delays: { travelMs: [0, 1], commitMs: [0, 1] } as const,
          onOpened: () => undefined,
        };
        const ran = connectCommitClient(world, needs).then((modelled) =>
          outcomesOf(modelled, steps),
        );
        await world.runUntil(60_000);
        return { outcomes: await ran, tables: server.tables };
      });
      expect(model.outcomes).toEqual(real);
      expect(cursorsIn(model.tables)).toEqual(cursors.rows);
      expect(rowsIn(model.tables)).toEqual(rows);
    },
  );
  try {
    await fc.assert(property, { numRuns: 40 });
  } finally {
    await client.end();
  }
});

const byHost = (a: { host_id: string }, b: { host_id: string }) => (a.host_id < b.host_id ? -1 : 1);
const cursorsIn = ({ cursors }: Tables) =>
  [...cursors]
    .map(([row, { cursor }]) => ({ host_id: row.split("\0")[0] ?? "", cursor }))
    .toSorted(byHost);
const rowsIn = ({ envelopes }: Tables) =>
  envelopes
    .map(({ hostId, sequence, text }) => ({ host_id: hostId, sequence, text }))
    .toSorted((a, b) => byHost(a, b) || a.sequence - b.sequence)
    .toSorted((a, b) => (a.host_id === b.host_id ? a.sequence - b.sequence : 0));
