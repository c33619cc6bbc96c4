import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { createTestDatabase } from "#tests/support/database.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { findStored, testRun } from "#tests/support/stored-envelopes.ts";
import { commitFrames, commitFramesAhead, openCommitClient } from "./commit-frames.ts";
import { type FrameToCommit, queueKey } from "./decide-frames.ts";

const database = await createTestDatabase();
const { sql } = database.connect();
const client = await openCommitClient(database.url);
afterAll(async () => {
  await client.end();
  await database.drop();
});

const hour = Date.UTC(2026, 10, 22, 6);
const needs = { codec: zstdCodec, now: () => hour };
const own = Array.from({ length: 9 }, (_, index) => `own_kind_${index}`);
const kinds = ["otel_span", "otel_log", "otel_metric", "log_line", "my_kind", ...own];

interface SentRow {
  kind: string;
  bytes: number;
}
const frame = (
  hostId: string,
  previousSequence: bigint,
  sent: readonly SentRow[],
  queue = 7,
): FrameToCommit => {
  const queueId = new Uint8Array(16).fill(queue);
  return {
    hostId,
    queueId,
    previousSequence,
    lastSequence: previousSequence + BigInt(sent.length),
    receivedAt: hour,
    run: testRun(
      sent.map(({ kind, bytes }, index) => ({
        sequence: previousSequence + BigInt(index) + 1n,
        kind,
        source: "s",
        attributes: { a: "é" },
        payload: new Uint8Array(bytes),
      })),
    ),
  };
};

const counted =
  () => sql`select host_id, kind, sum(envelopes)::int as envelopes, sum(payload_bytes)::int as bytes
  from ingest_hour group by 1, 2 order by 1, 2`;
const stored = async () => {
  const groups = Map.groupBy(await findStored(sql), ({ hostId, kind }) =>
    [hostId, own.includes(kind) || kind === "my_kind" ? "other" : kind].join("\0"),
  );
  return [...groups].map(([key, found]) => {
    const [host_id, kind] = key.split("\0");
    return {
      host_id,
      kind,
      envelopes: found.length,
      bytes: found.reduce((sum, { payload }) => sum + payload.length, 0),
    };
  });
};
const sorted = (rows: Iterable<object>) => Array.from(rows, (row) => JSON.stringify(row)).sort();

it("counts exactly the stored envelopes by host, hour and kind, also when frames are sent again or overlap", async () => {
  const rows = fc.array(fc.record({ kind: fc.constantFrom(...kinds), bytes: fc.nat(40) }), {
    minLength: 1,
    maxLength: 8,
  });
  const frames = fc.array(
    fc.record({ host: fc.constantFrom("a", "b'\"\\", "日本"), queue: fc.constantFrom(1, 2), rows }),
    {
      minLength: 1,
      maxLength: 5,
    },
  );
  const cursors = new Map<string, bigint>();
  const property = fc.asyncProperty(frames, fc.nat(3), fc.nat(2), async (sent, overlap, hours) => {
    const batch = sent.map(({ host, queue, rows: some }) => {
      const key = `${host}${queue}`;
      const cursor = cursors.get(key) ?? 0n;
      const previous = cursor > BigInt(overlap) ? cursor - BigInt(overlap) : cursor;
      const made = frame(host, previous, some, queue);
      if (made.lastSequence > cursor) cursors.set(key, made.lastSequence);
      return made;
    });
    await commitFrames(client, batch, {
      codec: zstdCodec,
      now: () => hour + hours * 3_600_000 + 5,
    });
    expect(sorted(await counted())).toEqual(sorted(await stored()));
  });
  await fc.assert(property, { numRuns: runsOf(30), seed: 20_261_122 });
});

it("counts what is committed ahead, and nothing when the cursor was elsewhere", async () => {
  const queueId = new Uint8Array(16).fill(7);
  const ahead = (expected: bigint, previous: bigint) =>
    commitFramesAhead(client, [frame("ahead", previous, [{ kind: "log_line", bytes: 3 }])], {
      expected: new Map([[queueKey("ahead", queueId), expected]]),
      turn: undefined,
      ...needs,
    });
  await commitFrames(client, [frame("ahead", 0n, [{ kind: "log_line", bytes: 3 }])], needs);
  expect(await ahead(1n, 1n)).toHaveLength(1);
  expect(await ahead(5n, 5n)).toBeUndefined();
  const [row] =
    await sql`select envelopes::int, payload_bytes::int, hour::text from ingest_hour where host_id = 'ahead'`;
  expect(row).toEqual({ envelopes: 2, payload_bytes: 6, hour: "2026-11-22 06:00:00+00" });
});
