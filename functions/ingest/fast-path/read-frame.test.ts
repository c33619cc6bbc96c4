import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import { expect, it } from "vitest";
import { ForwardRequestSchema, type FrameSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import {
  describeFrame,
  sentIdentity as identity,
  sentLimits as limits,
  sentQueue as queueId,
  sentFrames,
} from "#tests/support/ingest/sent-frames.ts";
import { examineFrame } from "../examine-frame.ts";
import { readFrame } from "./create-fast-path.ts";

const receivedAt = Date.UTC(2026, 10, 21, 1, 2, 3, 456);

type FrameInit = MessageInitShape<typeof FrameSchema>;
const encode = (frame: FrameInit) =>
  toBinary(
    ForwardRequestSchema,
    create(ForwardRequestSchema, { message: { case: "frame", value: frame } }),
  );
const read = (message: Uint8Array) => readFrame(message, { identity, limits, receivedAt });

/** Decodes a message by the plain path; undefined when it rejects it. */
const readPlain = (message: Uint8Array) => {
  try {
    const request = fromBinary(ForwardRequestSchema, message).message;
    return request.case === "frame"
      ? examineFrame(request.value, identity, limits, receivedAt)
      : undefined;
  } catch {
    return undefined;
  }
};

/** Expects that the fast path reads the same frame as the plain one, or leaves it to it; returns whether it read it. */
const expectAgreement = (message: Uint8Array) => {
  const fast = read(Uint8Array.from(message));
  if (fast === undefined) return false;
  const plain = readPlain(message);
  if (plain === undefined) expect.fail("the plain path rejects a frame that the fast path reads");
  expect(describeFrame(fast)).toEqual(describeFrame(plain));
  expect(fast.bytes).toBeGreaterThanOrEqual(plain.bytes);
  return true;
};

const runs = 1_000;

it("reads random frames as the plain path does, or leaves them to it", () => {
  let read = 0;
  fc.assert(
    fc.property(sentFrames.map(encode), (message) => {
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
    byte: fc.constantFrom(
      0,
      0x08,
      0x0a,
      0x12,
      0x1a,
      0x22,
      0x2a,
      0x32,
      0x3b,
      0x3c,
      0x7f,
      0x80,
      0xff,
    ),
    how: fc.constantFrom("replace", "insert", "remove", "cut"),
  });
  fc.assert(
    fc.property(
      sentFrames.map(encode),
      fc.array(tampering, { minLength: 1, maxLength: 3 }),
      (message, faults) => {
        const bytes = [...message];
        for (const { at, byte, how } of faults) {
          const offset = at % (bytes.length + 1);
          if (how === "cut") bytes.length = offset;
          else bytes.splice(offset, how === "insert" ? 0 : 1, ...(how === "remove" ? [] : [byte]));
        }
        expectAgreement(Uint8Array.from(bytes));
      },
    ),
    { numRuns: runs, seed: 2 },
  );
});

it("leaves to the plain path what no protobuf library writes, wherever it occurs", () => {
  const raw = (
    write: (writer: BinaryWriter) => void,
    previous: (writer: BinaryWriter) => void = () => undefined,
  ) => {
    const one = new BinaryWriter()
      .uint32(8)
      .uint32(7)
      .tag(2, WireType.LengthDelimited)
      .string("log_line");
    write(one);
    const sent = new BinaryWriter().tag(1, WireType.LengthDelimited).string(identity);
    sent.tag(2, WireType.LengthDelimited).bytes(queueId);
    previous(sent);
    sent.tag(4, WireType.LengthDelimited).bytes(one.finish());
    return new BinaryWriter().tag(2, WireType.LengthDelimited).bytes(sent.finish()).finish();
  };
  const payload = (writer: BinaryWriter) =>
    writer.tag(6, WireType.LengthDelimited).bytes(Uint8Array.of(1));
  expect(read(raw(payload))).toBeDefined();
  const unusual: ((writer: BinaryWriter) => void)[] = [
    (writer) => payload(payload(writer)),
    // The first payload is hidden: nobody has checked it.
    (writer) =>
      payload(
        payload(writer)
          .tag(5, WireType.LengthDelimited)
          .bytes(Uint8Array.of(10, 1, 65)),
      ),
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

it("G1: leaves a frame of too many envelopes or attributes to the plain path", () => {
  const attributes = Object.fromEntries(
    Array.from({ length: 999 }, (_, index) => [`n${index}`, ""]),
  );
  const of = (count: number, more: object) =>
    encode({
      hostId: identity,
      queueId,
      envelopes: Array.from({ length: count }, (_, at) => ({
        sequence: BigInt(at + 1),
        kind: "k",
        ...more,
      })),
    });
  expect(read(of(100, { attributes }))).toBeDefined();
  expect(read(of(101, { attributes }))).toBeUndefined();
  expect(read(of(100_000, {}))).toBeDefined();
  expect(read(of(100_001, {}))).toBeUndefined();
});
