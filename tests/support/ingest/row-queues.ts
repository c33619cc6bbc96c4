/** A model of ingest: what a store of one row for each envelope would have, and anything that senders do to it. */
import { create } from "@bufbuild/protobuf";
import fc from "fast-check";
import { hourMs } from "#kit/clock.ts";
import { type Envelope, EnvelopeSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";

/** Limits that some of the envelopes exceed. */
export const rowLimits = {
  payloadBytesMax: 5_000,
  hostIdBytesMax: 253,
  frameBytesMax: 1_000_000,
  discardSpanNames: new Set(["health"]),
};
const health = Uint8Array.of(10, 12, 18, 10, 18, 8, 42, 6, 104, 101, 97, 108, 116, 104);

/** An envelope for each thing that core makes of one. */
const fates = {
  line: { kind: "log_line" },
  early: { kind: "otel_metric", observedAt: { seconds: -86_400n, nanos: 999_999_999 } },
  timed: { kind: "otel_span", observedAt: { seconds: 1_795_000_000n, nanos: 5_000 } },
  own: { kind: "own_kind", attributes: { 'a"\\': "é\n", 10: "", 9: "" } },
  another: { kind: "own_kind_2" },
  large: { kind: "log_line", payload: new Uint8Array(4_000).fill(97) },
  rejectedKind: { kind: "Not a kind" },
  rejectedPayload: { kind: "log_line", payload: new Uint8Array(5_001) },
  rejectedText: { kind: "log_line", source: "\0" },
  discarded: { kind: "otel_span", payload: health },
} as const;
/** What core makes of an envelope. */
export type Fate = keyof typeof fates;
const isStored = (fate: Fate) => !fate.startsWith("rejected") && fate !== "discarded";

/** A frame or a block that a sender makes. */
export interface Sending {
  /** Where it begins, counted from behind the one before: below 0 it overlaps, above 0 something is missing. */
  offset: number;
  form: "decoded frame" | "frame" | "plain block" | "zstd block";
  envelopes: readonly { step: number; fate: Fate }[];
  /** That of its queue, one before it or of nobody, or none. */
  session: "own" | "earlier" | "none";
}

const sending = fc.record({
  offset: fc.oneof(
    { weight: 6, arbitrary: fc.constant(0) },
    { weight: 3, arbitrary: fc.integer({ min: -12, max: -1 }) },
    fc.constant(1),
  ),
  form: fc.constantFrom("decoded frame", "frame", "plain block", "zstd block"),
  envelopes: fc.array(
    fc.record({
      step: fc.oneof({ weight: 8, arbitrary: fc.constant(1) }, fc.constant(3)),
      fate: fc.oneof(
        {
          weight: 12,
          arbitrary: fc.constantFrom<Fate>("line", "early", "timed", "own", "another", "large"),
        },
        fc.constantFrom<Fate>("rejectedKind", "rejectedPayload", "rejectedText", "discarded"),
      ),
    }),
    { maxLength: 8 },
  ),
  session: fc.constantFrom("own", "own", "own", "own", "own", "earlier", "earlier", "none"),
});
const queue = fc.nat(2);
const core = fc.constantFrom<0 | 1>(0, 1);
const sends = fc.array(sending, { minLength: 1, maxLength: 6 });
/** Any step. */
export const ingestSteps = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      queue,
      does: fc.constant("open" as const),
      core,
      isCopy: fc.nat(3).map((one) => one === 0),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ queue, does: fc.constant("send" as const), core, sent: sends }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ queue, does: fc.constant("send to both" as const), sent: sends }),
  },
);

/** An envelope, and the hour in which it is counted. */
export interface StoredRow {
  envelope: Envelope;
  hour: number;
}

/** A queue of rows: what a store of one row for each envelope has of it. */
export class RowQueue {
  readonly hostId: string;
  readonly queueId: Uint8Array;
  cursor = 0n;
  session: Uint8Array | undefined;
  readonly sessions: Uint8Array[] = [];
  readonly rows: StoredRow[] = [];

  constructor(hostId: string, queueId: Uint8Array) {
    this.hostId = hostId;
    this.queueId = queueId;
  }

  /** Returns the outcome of a frame, and whether all of it was stored. */
  commit(
    previous: bigint,
    sent: readonly { fate: Fate; envelope: Envelope }[],
    session: Uint8Array | undefined,
    now: number,
  ) {
    const before = this.cursor;
    if (previous > before) return { outcome: "sequence_gap", cursor: before, isWhole: false };
    if (session && session !== this.session)
      return {
        outcome: this.session ? "session_superseded" : "sequence_gap",
        cursor: before,
        isWhole: false,
      };
    const stored = sent.filter(
      ({ fate, envelope }) => isStored(fate) && envelope.sequence > before,
    );
    for (const { envelope } of stored) this.rows.push({ envelope, hour: now - (now % hourMs) });
    const last = sent.at(-1)?.envelope.sequence ?? previous;
    if (last > before) this.cursor = last;
    return {
      outcome: "committed",
      cursor: this.cursor,
      isWhole: stored.length === sent.length && stored.length > 0,
    };
  }
}

let made = 0;

/** Creates an envelope that differs from every other. */
export const makeEnvelope = (sequence: bigint, fate: Fate) =>
  create(EnvelopeSchema, {
    sequence,
    source: `of ${++made}`,
    payload: Buffer.from(`record ${made}`),
    ...fates[fate],
  });
