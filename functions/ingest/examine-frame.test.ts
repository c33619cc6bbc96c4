import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { FrameSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { envelopesOf } from "../store/ingest/envelope-run.ts";
import { checkClaims, examineFrame } from "./examine-frame.ts";

const identity = "spiffe://fleet.test/host-1";
const limits = { payloadBytesMax: 10, hostIdBytesMax: 253, discardSpanNames: new Set(["health"]) };
const queueId = new Uint8Array(16);
const envelope = { kind: "log_line", source: "s", payload: new Uint8Array(3) };

const examine = (frame: MessageInitShape<typeof FrameSchema>) =>
  examineFrame(
    create(FrameSchema, { hostId: identity, queueId, ...frame }),
    identity,
    limits,
    1_000,
  );

const codeOf = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
  return undefined;
};

it("G6: accepts a host_id only byte for byte", () => {
  for (const hostId of [
    "",
    "spiffe://fleet.test/HOST-1",
    `${identity}.`,
    `${identity}/`,
    ` ${identity}`,
  ])
    expect(codeOf(() => examine({ hostId }))).toBe("host_identity_mismatch");
  expect(codeOf(() => examine({ hostId: "é".repeat(127) }))).toBe("host_id_too_long");
  expect(codeOf(() => examine({ hostId: "x".repeat(253) }))).toBe("host_identity_mismatch");
  const long = "x".repeat(254);
  expect(codeOf(() => checkClaims({ hostId: long, queueId }, long, limits))).toBe(
    "host_id_too_long",
  );
  expect(
    codeOf(() => checkClaims({ hostId: identity, queueId: new Uint8Array(15) }, identity, limits)),
  ).toBe("frame_invalid");
});

it("accepts sequences that rise from above previous_sequence, with gaps, within 63 bits", () => {
  const of = (previousSequence: bigint, ...sequences: bigint[]) =>
    codeOf(() =>
      examine({
        previousSequence,
        envelopes: sequences.map((sequence) => ({ ...envelope, sequence })),
      }),
    );
  expect(of(0n, 1n, 2n, 9n)).toBeUndefined();
  expect(of(5n)).toBeUndefined();
  expect(of(2n ** 63n - 2n, 2n ** 63n - 1n)).toBeUndefined();
  for (const wrong of [
    of(0n, 0n),
    of(1n, 1n),
    of(0n, 2n, 2n),
    of(0n, 2n, 1n),
    of(0n, 2n ** 63n),
    of(2n ** 63n),
  ])
    expect(wrong).toBe("frame_invalid");
});

it("rejects single invalid envelopes, and accepts the rest of the frame", () => {
  const { frame, rejected, discarded } = examine({
    envelopes: [
      { ...envelope, sequence: 1n },
      { ...envelope, sequence: 2n, payload: new Uint8Array(11) },
      { ...envelope, sequence: 3n, kind: "Log" },
      { ...envelope, sequence: 4n, kind: "k".repeat(65) },
      { ...envelope, sequence: 5n, source: "a\0b" },
      { ...envelope, sequence: 6n, attributes: { "a\0": "b" } },
      { ...envelope, sequence: 7n, attributes: { a: "b\0" } },
      { ...envelope, sequence: 8n, observedAt: { seconds: 253_402_300_800n } },
      { ...envelope, sequence: 9n, observedAt: { nanos: -1 } },
      // resource_spans { scope_spans { spans { name: "h" } } }, and the same with the listed name.
      {
        ...envelope,
        sequence: 10n,
        kind: "otel_span",
        payload: Uint8Array.of(10, 7, 18, 5, 18, 3, 42, 1, 104),
      },
      { ...envelope, sequence: 12n, payload: new Uint8Array(10) },
    ],
  });
  expect(envelopesOf(frame.run).map(({ sequence }) => sequence)).toEqual([1n, 10n, 12n]);
  expect(rejected.map(({ sequence, code }) => [sequence, code])).toEqual([
    [2n, "payload_too_large"],
    [3n, "kind_invalid"],
    [4n, "kind_invalid"],
    [5n, "envelope_invalid"],
    [6n, "envelope_invalid"],
    [7n, "envelope_invalid"],
    [8n, "envelope_invalid"],
    [9n, "envelope_invalid"],
  ]);
  expect(discarded).toEqual([]);
  expect(frame.lastSequence).toBe(12n);
});

it("discards otel_span envelopes of listed names only, and consumes their sequence", () => {
  const health = Uint8Array.of(10, 12, 18, 10, 18, 8, 42, 6, 104, 101, 97, 108, 116, 104);
  const sent = {
    envelopes: [1n, 2n].map((sequence) => ({ ...envelope, sequence, payload: health })),
  };
  const [first, second] = sent.envelopes;
  const wide = { ...limits, payloadBytesMax: 100 };
  const frame = create(FrameSchema, {
    hostId: identity,
    queueId,
    envelopes: [
      { ...first, kind: "otel_span" },
      { ...second, kind: "otel_log" },
    ],
  });
  const examined = examineFrame(frame, identity, wide, 0);
  expect(examined.discarded).toEqual([1n]);
  expect(envelopesOf(examined.frame.run).map(({ sequence }) => sequence)).toEqual([2n]);
  expect(examined.frame.lastSequence).toBe(2n);
});

it("G1: counts an envelope's attributes, source and kind, also of rejected ones, so that they cannot fill memory", () => {
  const text = "t".repeat(1000);
  const attributes = Object.fromEntries(
    Array.from({ length: 1000 }, (_, index) => [`name-${index}`, text]),
  );
  const of = (sent: object) =>
    examine({ envelopes: [{ ...envelope, sequence: 1n, ...sent }] }).bytes;
  expect(of({ attributes })).toBeGreaterThan(1_000_000);
  expect(
    of({ attributes: Object.fromEntries(Object.keys(attributes).map((name) => [name, ""])) }),
  ).toBeGreaterThan(64_000);
  expect(of({ source: text })).toBeGreaterThan(1000);
  expect(of({ kind: text })).toBeGreaterThan(1000);
  expect(of({ kind: "Rejected", attributes })).toBeGreaterThan(1_000_000);
});

it("G1: rejects a frame of more than 100,000 envelopes and attributes, however few its bytes", () => {
  const attributes = Object.fromEntries(Array.from({ length: 999 }, (_, index) => [index, ""]));
  const of = (count: number) =>
    codeOf(() =>
      examine({
        envelopes: Array.from({ length: count }, (_, at) => ({
          ...envelope,
          sequence: BigInt(at + 1),
          attributes,
        })),
      }),
    );
  expect(of(100)).toBeUndefined();
  expect(of(101)).toBe("frame_too_large");
});
