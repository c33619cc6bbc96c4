/**
 * Envelopes of one queue as they are stored: a run of fields `envelopes` (ingest.proto), plain, so each field once and in the order of the
 * numbers, as every protobuf library writes them. What core stores of a block is the sender's own bytes; only a run of which something
 * was cut, rejected or discarded is encoded again.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Envelope, EnvelopesSchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";

/** How many envelopes of a kind, and the bytes of their payloads. */
export interface KindCount {
  envelopes: number;
  payloadBytes: number;
}

/** Envelopes of one queue that rise in sequence. */
export interface EnvelopeRun {
  /** The encoded `Envelopes`. */
  bytes: Uint8Array;
  count: number;
  payloadBytes: number;
  firstSequence: bigint;
  lastSequence: bigint;
  kinds: ReadonlyMap<string, KindCount>;
  /** The first and the last observation, in seconds since the Unix epoch; undefined when no sender gave a time. */
  observed: { from: number; to: number } | undefined;
  /** `bytes` as their sender compressed them with zstd. */
  compressed?: Uint8Array | undefined;
}

/** Encodes envelopes, which rise in sequence. */
export const runOf = (envelopes: readonly Envelope[]): EnvelopeRun => {
  const kinds = new Map<string, KindCount>();
  let payloadBytes = 0;
  let observed: EnvelopeRun["observed"];
  for (const { kind, payload, observedAt } of envelopes) {
    const counted = kinds.get(kind) ?? { envelopes: 0, payloadBytes: 0 };
    counted.envelopes++;
    counted.payloadBytes += payload.length;
    kinds.set(kind, counted);
    payloadBytes += payload.length;
    if (observedAt) observed = widen(observed, Number(observedAt.seconds));
  }
  return {
    bytes: toBinary(EnvelopesSchema, create(EnvelopesSchema, { envelopes: [...envelopes] })),
    count: envelopes.length,
    payloadBytes,
    firstSequence: envelopes[0]?.sequence ?? 0n,
    lastSequence: envelopes.at(-1)?.sequence ?? 0n,
    kinds,
    observed,
  };
};

/** Returns what of a run is above `cursor`; the run itself when that is all. */
export const runAbove = (run: EnvelopeRun, cursor: bigint): EnvelopeRun => {
  if (run.count === 0 || run.firstSequence > cursor) return run;
  return runOf(envelopesOf(run).filter(({ sequence }) => sequence > cursor));
};

/** Decodes a run. */
export const envelopesOf = ({ bytes }: Pick<EnvelopeRun, "bytes">): Envelope[] =>
  fromBinary(EnvelopesSchema, bytes, { readUnknownFields: false }).envelopes;

/** Joins runs of one queue, each above the one before. */
export const joinRuns = (runs: readonly [EnvelopeRun, ...EnvelopeRun[]]): EnvelopeRun => {
  const [first] = runs;
  if (runs.length === 1) return first;
  const bytes = new Uint8Array(runs.reduce((sum, run) => sum + run.bytes.length, 0));
  const joined = { ...first, bytes, count: 0, payloadBytes: 0, compressed: undefined };
  const kinds = new Map<string, KindCount>();
  let at = 0;
  for (const run of runs) {
    bytes.set(run.bytes, at);
    at += run.bytes.length;
    joined.count += run.count;
    joined.payloadBytes += run.payloadBytes;
    joined.lastSequence = run.lastSequence;
    if (run.observed) joined.observed = widen(widen(joined.observed, run.observed.from), run.observed.to);
    for (const [kind, { envelopes, payloadBytes }] of run.kinds) {
      const known = kinds.get(kind);
      kinds.set(kind, {
        envelopes: (known?.envelopes ?? 0) + envelopes,
        payloadBytes: (known?.payloadBytes ?? 0) + payloadBytes,
      });
    }
  }
  return { ...joined, kinds };
};

/** Returns a span of seconds that also has `seconds`: the same, where it has. */
export const widen = (observed: EnvelopeRun["observed"], seconds: number): { from: number; to: number } => {
  if (observed === undefined) return { from: seconds, to: seconds };
  if (seconds < observed.from) return { from: seconds, to: observed.to };
  return seconds > observed.to ? { from: observed.from, to: seconds } : observed;
};
