import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { unpooled } from "../../../kit/buffer-pool.ts";
import { ForwardRequestSchema, type FrameSchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { decodeRows } from "../../../tests/support/decode-rows.ts";
import { rowsAbove } from "../../store/ingest/envelope-rows.ts";
import { type ExaminedFrame, examineFrame } from "../examine-frame.ts";
import { readFrame } from "./read-frame.ts";

const identity = "spiffe://fleet.test/hôst-1";
const limits = { payloadBytesMax: 40, hostIdBytesMax: 253, discardSpanNames: new Set(["health"]) };
const queueId = new Uint8Array(16).fill(3);
const receivedAt = Date.UTC(2026, 10, 21, 1, 2, 3, 456);

type FrameInit = MessageInitShape<typeof FrameSchema>;
const encode = (frame: FrameInit): Uint8Array =>
  toBinary(ForwardRequestSchema, create(ForwardRequestSchema, { message: { case: "frame", value: frame } }));
const read = (message: Uint8Array) => readFrame(message, { identity, limits, receivedAt, buffers: unpooled });

/** Decodes a message by the plain path; undefined when it rejects it. */
const readPlain = (message: Uint8Array): ExaminedFrame | undefined => {
  try {
    const request = fromBinary(ForwardRequestSchema, message).message;
    return request.case === "frame" ? examineFrame(request.value, identity, limits, receivedAt) : undefined;
  } catch {
    return undefined;
  }
};

const describeFrame = ({ frame, rejected, discarded }: ExaminedFrame) => ({
  ...frame,
  queueId: frame.queueId.toHex(),
  rows: decodeRows(frame.rows),
  payloadBytes: frame.rows.payloadBytes,
  above: [...frame.rows.sequences.subarray(0, frame.rows.count)].map((cursor) => {
    const rows = rowsAbove(frame.rows, cursor);
    return { payloadBytes: rows.payloadBytes, rows: decodeRows(rows) };
  }),
  rejected,
  discarded,
});

/** Expects that the fast path reads the same frame as the plain one, or leaves it to it; returns whether it read it. */
const expectAgreement = (message: Uint8Array): boolean => {
  const fast = read(Uint8Array.from(message));
  if (fast === undefined) return false;
  const plain = readPlain(message);
  if (plain === undefined) expect.fail("the plain path rejects a frame that the fast path reads");
  expect(describeFrame(fast)).toEqual(describeFrame(plain));
  expect(fast.bytes).toBeGreaterThanOrEqual(plain.bytes);
  return true;
};

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constantFrom("", "\0", 'a"\\\n\t\u007f', "\ufeffmark", "__proto__", "é".repeat(40), "\u2028🚀", "1", "10"),
);
const timestamp = fc.record({
  seconds: fc.oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.constantFrom(0n, -1n, 1_795_000_000n, -62_135_596_800n, -62_135_596_801n, 253_402_300_799n, 253_402_300_800n),
  ),
  nanos: fc.oneof(fc.integer(), fc.constantFrom(0, 1, 999_999_999, 1_000_000_000, -1)),
});
const health = Uint8Array.of(10, 12, 18, 10, 18, 8, 42, 6, 104, 101, 97, 108, 116, 104);
const envelope = fc.record(
  {
    sequence: fc.bigInt({ min: 1n, max: 2n ** 35n }),
    kind: fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom("log_line", "otel_span", "k9_") },
      { weight: 1, arbitrary: text },
    ),
    observedAt: timestamp,
    source: text,
    attributes: fc.dictionary(text, text, { maxKeys: 4 }),
    payload: fc.oneof(fc.uint8Array({ maxLength: 42 }), fc.constant(health)),
  },
  { requiredKeys: ["sequence", "kind"] },
);
const frame = fc
  .record({
    hostId: fc.oneof({ weight: 15, arbitrary: fc.constant(identity) }, { weight: 1, arbitrary: text }),
    queueId: fc.oneof({ weight: 15, arbitrary: fc.constant(queueId) }, { weight: 1, arbitrary: fc.uint8Array() }),
    previousSequence: fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
    envelopes: fc.array(envelope, { maxLength: 6 }),
    rises: fc.boolean(),
  })
  .map(({ rises, ...sent }) => {
    let last = sent.previousSequence;
    const rising = sent.envelopes.map((one) => {
      last += one.sequence;
      return { ...one, sequence: BigInt.asUintN(64, last) };
    });
    return encode({ ...sent, envelopes: rises ? rising : sent.envelopes });
  });

const runs = 1_000;

describe("readFrame", () => {
  it("reads random frames as the plain path does, or leaves them to it", () => {
    let read = 0;
    fc.assert(
      fc.property(frame, (message) => {
        if (expectAgreement(message)) read++;
      }),
      { numRuns: runs, seed: 1 },
    );
    // Otherwise a reader that reads nothing would pass.
    expect(read).toBeGreaterThan(runs / 20);
  });

  it("reads tampered frames as the plain path does, or leaves them to it, and never throws", () => {
    const tampering = fc.record({
      at: fc.nat(),
      byte: fc.constantFrom(0, 0x08, 0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x32, 0x3b, 0x3c, 0x7f, 0x80, 0xff),
      how: fc.constantFrom("replace", "insert", "remove", "cut"),
    });
    fc.assert(
      fc.property(frame, fc.array(tampering, { minLength: 1, maxLength: 3 }), (message, faults) => {
        const bytes = [...message];
        for (const { at, byte, how } of faults) {
          const offset = at % (bytes.length + 1);
          if (how === "cut") bytes.length = offset;
          else bytes.splice(offset, how === "insert" ? 0 : 1, ...(how === "remove" ? [] : [byte]));
        }
        expectAgreement(Uint8Array.from(bytes));
      }),
      { numRuns: runs, seed: 2 },
    );
  });

  it("leaves to the plain path what no protobuf library writes, wherever it occurs", () => {
    const raw = (write: (writer: BinaryWriter) => void, previous: (writer: BinaryWriter) => void = () => undefined) => {
      const one = new BinaryWriter().uint32(8).uint32(7).tag(2, WireType.LengthDelimited).string("log_line");
      write(one);
      const sent = new BinaryWriter().tag(1, WireType.LengthDelimited).string(identity);
      sent.tag(2, WireType.LengthDelimited).bytes(queueId);
      previous(sent);
      sent.tag(4, WireType.LengthDelimited).bytes(one.finish());
      return new BinaryWriter().tag(2, WireType.LengthDelimited).bytes(sent.finish()).finish();
    };
    const payload = (writer: BinaryWriter) => writer.tag(6, WireType.LengthDelimited).bytes(Uint8Array.of(1));
    expect(read(raw(payload))).toBeDefined();
    const unusual: ((writer: BinaryWriter) => void)[] = [
      (writer) => payload(payload(writer)),
      (writer) => payload(writer).tag(1, WireType.Varint).uint32(9),
      (writer) => payload(writer).tag(7, WireType.Varint).uint32(1),
      (writer) => payload(writer).tag(7, WireType.StartGroup).tag(7, WireType.EndGroup),
      (writer) => payload(writer).tag(6, WireType.Varint).uint32(0),
      (writer) => payload(writer).tag(3, WireType.LengthDelimited).bytes(Uint8Array.of(8, 1)),
      (writer) => writer.tag(3, WireType.LengthDelimited).bytes(Uint8Array.of(8, 1, 8, 2)),
      (writer) => writer.tag(3, WireType.LengthDelimited).bytes(Uint8Array.of(10, 1, 0)),
      (writer) => writer.tag(3, WireType.LengthDelimited).bytes(Uint8Array.of(8, 0x80)),
      (writer) => writer.tag(5, WireType.LengthDelimited).bytes(Uint8Array.of(18, 1, 65, 10, 1, 65)),
      (writer) => writer.tag(5, WireType.LengthDelimited).bytes(Uint8Array.of(26, 1, 65)),
      (writer) => writer.tag(4, WireType.LengthDelimited).bytes(Uint8Array.of(0xff)),
    ];
    for (const write of unusual) expect(read(raw(write))).toBeUndefined();
    for (const write of unusual) expect(expectAgreement(raw(write))).toBe(false);
    const unknown = raw(payload, (sent) => sent.tag(5, WireType.Varint).uint32(1));
    expect(read(unknown)).toBeUndefined();
    const twice = Uint8Array.of(...raw(payload), ...raw(payload));
    expect(read(twice)).toBeUndefined();
  });

  it("keeps no part of the message, whose buffer is reused", () => {
    const sent = { hostId: identity, queueId, envelopes: [{ sequence: 1n, kind: "k", payload: Uint8Array.of(1, 2) }] };
    const message = encode(sent);
    const before = read(message);
    const expected = before && describeFrame(before);
    message.fill(0xff);
    expect(before && describeFrame(before)).toEqual(expected);
  });

  it("G1: leaves a frame of too many envelopes or attributes to the plain path", () => {
    const attributes = Object.fromEntries(Array.from({ length: 999 }, (_, index) => [`n${index}`, ""]));
    const of = (count: number, more: object) =>
      encode({
        hostId: identity,
        queueId,
        envelopes: Array.from({ length: count }, (_, at) => ({ sequence: BigInt(at + 1), kind: "k", ...more })),
      });
    expect(read(of(100, { attributes }))).toBeDefined();
    expect(read(of(101, { attributes }))).toBeUndefined();
    expect(read(of(100_000, {}))).toBeDefined();
    expect(read(of(100_001, {}))).toBeUndefined();
  });
});
