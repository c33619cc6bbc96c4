import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, it } from "vitest";
import { EnvelopesSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { runsOf } from "#tests/support/is-slow.ts";
import { decodeEnvelopes } from "./envelope-run.ts";

const place = { hostId: "h", queueId: new Uint8Array(16), receivedAt: 7n };
const name = fc.constantFrom("", "a", "ä", "__proto__", "file.path");
const envelope = fc.record({
  sequence: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  kind: name,
  source: name,
  attributes: fc.dictionary(name, name, { maxKeys: 3 }),
  payload: fc.uint8Array({ maxLength: 200 }),
  observedAt: fc.option(
    fc.record({
      seconds: fc.bigInt({ min: -62_135_596_800n, max: 253_402_300_799n }),
      nanos: fc.integer({ min: 0, max: 999_999_999 }),
    }),
    { nil: undefined },
  ),
});
const encoded = fc
  .array(envelope, { maxLength: 5 })
  .map((envelopes) => toBinary(EnvelopesSchema, create(EnvelopesSchema, { envelopes })));

const expected = (bytes: Uint8Array) =>
  fromBinary(EnvelopesSchema, bytes).envelopes.map(
    ({ sequence, kind, source, attributes, payload, observedAt }) => ({
      ...place,
      sequence,
      kind,
      source,
      attributes,
      payload,
      observedAt:
        observedAt === undefined
          ? null
          : observedAt.seconds * 1_000_000n + BigInt(Math.floor(observedAt.nanos / 1000)),
    }),
  );

it("decodes what fromBinary decodes, value by value", () => {
  fc.assert(
    fc.property(encoded, (bytes) => {
      expect(decodeEnvelopes(bytes, place)).toEqual(expected(bytes));
    }),
    { numRuns: runsOf(500), seed: 1 },
  );
});

it("decodes tampered bytes as fromBinary does, or throws", () => {
  const tampered = fc.tuple(encoded, fc.nat(), fc.nat(255)).map(([bytes, at, value]) => {
    if (bytes.length > 0) bytes[at % bytes.length] = value;
    return bytes;
  });
  const tried = { equal: 0, thrown: 0 };
  fc.assert(
    fc.property(tampered, (bytes) => {
      try {
        const decoded = decodeEnvelopes(bytes, place);
        expect(decoded).toEqual(expected(bytes));
        tried.equal += 1;
      } catch (cause) {
        if (cause instanceof Error && cause.name === "AssertionError") throw cause;
        tried.thrown += 1;
      }
    }),
    { numRuns: runsOf(2_000), seed: 1 },
  );
  expect(Math.min(tried.equal, tried.thrown)).toBeGreaterThan(runsOf(100));
});
