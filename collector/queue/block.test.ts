import { create, fromBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { expect, it } from "vitest";
import { FrameSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { encodeBlock, testRecord } from "#tests/support/queue.ts";
import { isIntact, joinBlock, recordsOf } from "./block.ts";
import { batchRecords, decodeEnvelope, measureRecord } from "./envelope.ts";
import type { NewRecord } from "./record.ts";

const text = fc
  .string({ unit: "grapheme", maxLength: 50 })
  .filter((value) => value !== "__proto__");
const anyRecord = fc.record({
  kind: text,
  observedAtMs: fc.integer({ min: 0, max: 253_402_300_799_999 }),
  source: text,
  attributes: fc.dictionary(text, text, { maxKeys: 5, noNullPrototype: true }),
  payload: fc.uint8Array({ maxLength: 5_000 }),
});
const anySequence = fc.oneof(
  fc.integer({ min: 1, max: 40_000 }),
  fc.integer({ min: 1, max: 2 ** 52 }),
);

const encode = (records: readonly NewRecord[], first: number) =>
  encodeBlock(batchRecords(records), first);

it("equals the encoding of the protobuf library, and returns its records with their sizes", () => {
  const property = fc.property(
    fc.array(anyRecord, { minLength: 1, maxLength: 6 }),
    anySequence,
    (records, first) => {
      const block = encode(records, first);
      const envelopes = records.map(({ observedAtMs, ...rest }, index) => ({
        ...rest,
        sequence: BigInt(first + index),
        observedAt: timestampFromMs(observedAtMs),
      }));
      const decoded = fromBinary(FrameSchema, block.envelopes);
      expect(decoded).toEqual(create(FrameSchema, { envelopes }));
      const stored = recordsOf(block, first);
      expect(isIntact(block)).toBe(true);
      expect(stored.every((record) => record.isIntact)).toBe(true);
      expect(stored.map(({ sequence }) => sequence)).toEqual(
        records.map((_, index) => first + index),
      );
      expect(stored.map(({ bytes }) => bytes)).toEqual(
        records.map((record) => measureRecord(record)),
      );
      expect(stored.map(({ envelope }) => decodeEnvelope(envelope))).toEqual(records);
      for (const { bytes, envelope } of stored) expect(bytes).toBeGreaterThan(envelope.length);
    },
  );
  fc.assert(property, { numRuns: 200 });
});

it("computes the same size from record and envelope wherever the length prefix grows by a byte", () => {
  for (const around of [128, 16_384, 2_097_152])
    for (let size = around - 50; size < around + 5; size++) {
      const record = testRecord("", size);
      const [stored] = recordsOf(encode([record], 127), 127);
      expect(stored?.bytes).toBe(measureRecord(record));
    }
});

it("detects the corrupt record for any flipped bit, and returns the intact ones", () => {
  const records = ["a", "b", "c"].map((text) => testRecord(text, 20));
  const whole = encode(records, 7);
  for (const part of ["index", "envelopes"] as const)
    for (let bit = 0; bit < whole[part].length * 8; bit++) {
      const block = { ...whole, [part]: Uint8Array.from(whole[part]) };
      block[part][bit >> 3] = (block[part][bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(isIntact(block)).toBe(false);
      const found = recordsOf(block, 7);
      const intact = found.filter(({ isIntact }) => isIntact);
      if (part === "envelopes") expect(intact).toHaveLength(2);
      // A wrong end offset is the end of one record and the start of the next.
      else expect(intact.length).toBeGreaterThanOrEqual(1);
      for (const { sequence, envelope } of intact)
        expect(decodeEnvelope(envelope)).toEqual(records[sequence - 7]);
      expect(recordsOf(joinBlock(found), 7).map(({ isIntact }) => isIntact)).toEqual(
        found.map(({ isIntact }) => isIntact),
      );
    }
});

it("Q5: detects every record that is overwritten by zeros, as a disk leaves lost sectors", () => {
  const records = ["a", "b", "c"].map((text) => testRecord(text, 20));
  const whole = encode(records, 7);
  for (const part of ["index", "envelopes"] as const)
    for (let from = 0; from < whole[part].length; from += 4)
      for (let to = from + 4; to <= whole[part].length; to += 4) {
        const block = { ...whole, [part]: Uint8Array.from(whole[part]).fill(0, from, to) };
        expect(isIntact(block)).toBe(block[part].every((byte, at) => byte === whole[part][at]));
        const found = recordsOf(block, 7);
        expect(found).toHaveLength(records.length);
        for (const { sequence, envelope, isIntact } of found)
          if (isIntact) expect(decodeEnvelope(envelope)).toEqual(records[sequence - 7]);
      }
});

it("encodes a time before 1970 as 1970, and rejects NaN", () => {
  const [early] = recordsOf(encode([{ ...testRecord("a"), observedAtMs: -1 }], 1), 1);
  expect(decodeEnvelope(early?.envelope ?? new Uint8Array()).observedAtMs).toBe(0);
  expect(() => measureRecord({ ...testRecord("a"), observedAtMs: Number.NaN })).toThrow(TypeError);
});
