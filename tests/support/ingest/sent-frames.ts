import type { MessageInitShape } from "@bufbuild/protobuf";
import fc from "fast-check";
import type { ExaminedFrame } from "#functions/ingest/examine-frame.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { type EnvelopeRun, envelopesOf } from "#functions/store/ingest/envelope-run.ts";
import { cutRun, readRun } from "#functions/store/ingest/stored-envelope.ts";
import type { FrameSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";

/** The identity that most of the frames claim, their queue, and limits that some of them exceed. */
export const sentIdentity = "spiffe://fleet.test/hôst-1";
export const sentQueue = new Uint8Array(16).fill(3);
export const sentLimits = {
  payloadBytesMax: 40,
  hostIdBytesMax: 253,
  discardSpanNames: new Set(["health"]),
};

/** Describes a frame for a comparison: its envelopes, whatever their encoding, and what is left of it above each of them. */
export const describeFrame = ({ frame, rejected, discarded }: ExaminedFrame) => ({
  ...frame,
  queueId: frame.queueId.toHex(),
  run: describeRun(frame.run),
  above: readEnvelopes(frame.run).map(({ sequence }) =>
    describeRun(cutRun(frame.run, sequence, zstdCodec)),
  ),
  rejected,
  discarded,
});

const describeRun = (run: EnvelopeRun) => ({
  ...run,
  bytes: null,
  rawBytes: null,
  compressed: null,
  envelopes: readEnvelopes(run),
});

const readEnvelopes = (run: EnvelopeRun) =>
  readRun(run, zstdCodec, (bytes) => envelopesOf({ bytes: Uint8Array.from(bytes) }));

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constantFrom(
    "",
    "\0",
    'a"\\\n\t\u007f',
    "\ufeffmark",
    "__proto__",
    "é".repeat(40),
    "\u2028🚀",
    "1",
    "10",
  ),
);
const timestamp = fc.record({
  seconds: fc.oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.constantFrom(
      0n,
      -1n,
      1_795_000_000n,
      -62_135_596_800n,
      -62_135_596_801n,
      253_402_300_799n,
      253_402_300_800n,
    ),
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
/** Frames, most of which are plain. */
export const sentFrames = fc
  .record({
    hostId: fc.oneof(
      { weight: 15, arbitrary: fc.constant(sentIdentity) },
      { weight: 1, arbitrary: text },
    ),
    queueId: fc.oneof(
      { weight: 15, arbitrary: fc.constant(sentQueue) },
      { weight: 1, arbitrary: fc.uint8Array() },
    ),
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
    return { ...sent, envelopes: rises ? rising : sent.envelopes } satisfies MessageInitShape<
      typeof FrameSchema
    >;
  });
