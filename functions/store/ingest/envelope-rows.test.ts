import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../kit/clock.ts";
import { createTestDatabase, type TestDatabase } from "../../../tests/support/database.ts";
import { decodeRows } from "../../../tests/support/decode-rows.ts";
import { commitFrames, type FrameToCommit, openCommitClient } from "./commit-frames.ts";
import { type EnvelopeGroup, encodeRows, rowsAbove } from "./envelope-rows.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

describe("encodeRows", () => {
  it("writes rows that PostgreSQL reads unchanged, at the limits of every type", async () => {
    const client = await openCommitClient(database.url);
    const big = new Uint8Array(300_000).map((_, index) => index * 7);
    const frame = {
      hostId: "spiffe://x/ünïcode-🚀",
      queueId: new Uint8Array(16).fill(0xfe),
      receivedAt: Date.UTC(2026, 10, 20, 1, 2, 3, 456),
      rows: [
        {
          sequence: 1n,
          kind: "log_line",
          source: "",
          attributes: {},
          payload: new Uint8Array(),
        },
        {
          sequence: 2n,
          kind: "k".repeat(64),
          observedAt: { seconds: -62_135_596_800n, nanos: 1_999 },
          source: "日本語 \u{10ffff}",
          attributes: { "file.path": 'a"\\\n', é: "漢" },
          payload: big,
        },
        {
          sequence: 2n ** 63n - 1n,
          kind: "otel_span",
          observedAt: { seconds: 253_402_300_799n, nanos: 999_999_999 },
          source: "s",
          attributes: { a: "b" },
          payload: Uint8Array.of(0, 255, 10, 92),
        },
      ],
    };
    await commitFrames(client, [toCommit(frame, 2n ** 63n - 1n)], systemClock.now);
    await client.end();
    const { sql } = database.connect();
    const rows = await sql`
      select host_id, encode(queue_id, 'hex') as queue, sequence::text, kind, source, attributes, payload,
        (extract(epoch from observed_at) * 1000000)::numeric(30)::text as observed, received_at = ${new Date(frame.receivedAt).toISOString()}::text::timestamptz as received
      from ingest_envelope order by sequence`;
    expect(rows.map((row) => ({ ...row, payload: row.payload.length }))).toEqual(
      frame.rows.map((row) => ({
        host_id: frame.hostId,
        queue: "fe".repeat(16),
        sequence: String(row.sequence),
        kind: row.kind,
        source: row.source,
        attributes: row.attributes,
        payload: row.payload.length,
        observed: row.observedAt
          ? String(row.observedAt.seconds * 1_000_000n + BigInt(Math.floor(row.observedAt.nanos / 1000)))
          : null,
        received: true,
      })),
    );
    expect(Buffer.compare(rows[1]?.payload, big)).toBe(0);
    const [storage] = await sql`
      select attstorage from pg_attribute where attrelid = 'ingest_envelope_default'::regclass and attname = 'payload'`;
    expect(storage?.attstorage).toBe("e");
  });

  it("keeps every microsecond, before and after the epochs and beyond exact doubles", async () => {
    const seconds = [-1n, 0n, 1n, 946_684_799n, 946_684_800n, 1_795_000_000n, -8_060_514_455n, 9_953_884_056n];
    const rows = seconds.flatMap((second, index) =>
      [0, 1_000, 999_999_000].map((nanos, part) => ({
        sequence: BigInt(index * 3 + part + 1),
        kind: "k",
        observedAt: { seconds: second, nanos },
        source: "",
        attributes: {},
        payload: new Uint8Array(),
      })),
    );
    const client = await openCommitClient(database.url);
    const group = { hostId: "times", queueId: new Uint8Array(16), receivedAt: 0, rows };
    await commitFrames(client, [toCommit(group, 24n)], systemClock.now);
    await client.end();
    const stored = await database.connect().sql`
      select (extract(epoch from observed_at) * 1000000)::numeric(30)::text as observed
      from ingest_envelope where host_id = 'times' order by sequence`;
    expect(stored.map(({ observed }) => observed)).toEqual(
      rows.map(({ observedAt }) => String(observedAt.seconds * 1_000_000n + BigInt(observedAt.nanos / 1000))),
    );
  });

  it("returns the rows above a cursor unchanged, whatever precedes them", () => {
    const rows = [3n, 4n, 2n ** 40n].map((sequence, index) => ({
      sequence,
      kind: "log_line",
      source: "s",
      attributes: { index: String(index) },
      payload: new Uint8Array(index),
    }));
    const group = { hostId: "h", queueId: new Uint8Array(16), receivedAt: 0, rows };
    const all = encodeRows(group);
    const before = Uint8Array.from(all.bytes);
    for (const [cursor, kept] of [
      [2n, rows],
      [3n, rows.slice(1)],
      [4n, rows.slice(2)],
      [2n ** 40n - 1n, rows.slice(2)],
      [2n ** 40n, []],
    ] as const) {
      const above = rowsAbove(all, cursor);
      expect(decodeRows(above)).toEqual(decodeRows(encodeRows({ ...group, rows: kept })));
      expect([above.count, above.payloadBytes]).toEqual([
        kept.length,
        kept.reduce((sum, { payload }) => sum + payload.length, 0),
      ]);
    }
    expect(Uint8Array.from(all.bytes)).toEqual(before);
  });
});

const toCommit = (group: EnvelopeGroup, lastSequence: bigint): FrameToCommit => ({
  ...group,
  previousSequence: 0n,
  lastSequence,
  rows: encodeRows(group),
});
