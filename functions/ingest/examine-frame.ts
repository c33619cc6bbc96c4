import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { lengthOf } from "#kit/bytes.ts";
import type { Ack, Envelope, Frame } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { entriesMax, queueIdBytes, sequenceMax } from "#proto/limits/message-limits.ts";
import { decodeText, eachValue, ProtobufError, readWire } from "#proto/wire.ts";
import { Problem } from "../problems.ts";
import type { FrameToCommit } from "../store/ingest/decide-batch.ts";
import { type EnvelopeRun, runOf } from "../store/ingest/envelope-run.ts";

/** The limits of a frame (docs/protocol.md). */
export interface FrameLimits {
  payloadBytesMax: number;
  hostIdBytesMax: number;
  /** `otel_span` envelopes whose spans all have one of these names are consumed without being stored. */
  discardSpanNames: ReadonlySet<string>;
}

/** Why core rejects one envelope for good while it accepts the rest of its frame. */
type RejectionCode = "payload_too_large" | "kind_invalid" | "envelope_invalid";

/** A rejected envelope, as its ack reports it. The message never quotes what was sent. */
interface Rejected {
  sequence: bigint;
  code: RejectionCode;
  message: string;
}

/** An accepted frame: what to store, what its ack rejects, what the discard list drops. */
export interface ExaminedFrame {
  frame: FrameToCommit;
  rejected: readonly Rejected[];
  discarded: readonly bigint[];
  /** The memory that it occupies until it is committed. */
  bytes: number;
  /** Called once the frame is committed or rejected, and nothing reads its bytes any more. */
  release?(): void;
}

/** Bytes of a kind at most. */
export const kindBytesMax = 64;
const kindPattern = new RegExp(`^[a-z0-9_]{1,${kindBytesMax}}$`);
const nul = "\0";
/** The memory of an envelope beside its bytes: the objects of protobuf decoding and the overhead of a row. */
export const envelopeOverheadBytes = 256;
/** The memory of an attribute beside its bytes. */
export const attributeOverheadBytes = 96;
/** Returns what an ack counts in memory until it is sent, beside a few bytes. */
export const ackBytes = ({ rejected }: Pick<Ack, "rejected">): number =>
  rejected.length * envelopeOverheadBytes;
/** 0001-01-01, as google.protobuf.Timestamp has it. */
export const timestampSecondsMin = -62_135_596_800n;
/** The end of 9999-12-31. */
export const timestampSecondsMax = 253_402_300_799n;

/**
 * Rejects the claims of a frame or an Open unless its host id is within its limit (`host_id_too_long`) and is the caller's identity
 * byte for byte (`host_identity_mismatch`), and its queue id has 16 bytes (`frame_invalid`).
 */
export const checkClaims = (
  claims: { hostId: string; queueId: Uint8Array },
  identity: string,
  { hostIdBytesMax }: Pick<FrameLimits, "hostIdBytesMax">,
): void => {
  if (claims.hostId !== identity) {
    const bytes = new TextEncoder().encode(claims.hostId).length;
    throw new Problem(bytes > hostIdBytesMax ? "host_id_too_long" : "host_identity_mismatch");
  }
  if (claims.hostId.length > hostIdBytesMax) throw new Problem("host_id_too_long");
  if (claims.queueId.length !== queueIdBytes)
    throw invalid(`queue_id must be ${queueIdBytes} bytes`);
};

/**
 * Sorts a frame's envelopes into those to store, reject and discard. Throws for the whole frame, of which core then stores nothing:
 * see `checkClaims`, `frame_too_large` above `entriesMax`, and `frame_invalid` when sequences do not rise from above
 * `previous_sequence` within 63 bits.
 */
export const examineFrame = (
  sent: Pick<Frame, "hostId" | "queueId" | "previousSequence" | "envelopes">,
  identity: string,
  limits: FrameLimits,
  receivedAt: number,
): ExaminedFrame => {
  checkClaims(sent, identity, limits);
  const rows: Envelope[] = [];
  const rejected: Rejected[] = [];
  const discarded: bigint[] = [];
  let bytes = 0;
  let entries = sent.envelopes.length;
  let last = sent.previousSequence;
  if (entries > entriesMax) throw new Problem("frame_too_large");
  for (const envelope of sent.envelopes) {
    const { sequence, kind, payload, source, attributes } = envelope;
    if (sequence <= last) throw invalid("sequences must rise, from above previous_sequence");
    last = sequence;
    bytes += payload.length + kind.length + source.length + envelopeOverheadBytes;
    for (const name in attributes) {
      bytes += name.length + (attributes[name]?.length ?? 0) + attributeOverheadBytes;
      entries++;
    }
    if (entries > entriesMax) throw new Problem("frame_too_large");
    const fault = faultOf(envelope, limits);
    if (fault) rejected.push({ sequence, ...fault });
    else if (
      limits.discardSpanNames.size > 0 &&
      kind === "otel_span" &&
      everySpanNamed(payload, limits.discardSpanNames)
    )
      discarded.push(sequence);
    else rows.push(envelope);
  }
  if (last > sequenceMax) throw invalid("a sequence is above 2^63-1");
  const frame: FrameToCommit = {
    hostId: identity,
    queueId: sent.queueId,
    previousSequence: sent.previousSequence,
    lastSequence: last,
    receivedAt,
    run: runOf(rows),
  };
  return { frame, rejected, discarded, bytes: heldBytes(bytes, frame.run) };
};

/** Returns what a frame counts in memory: its decoded size, or its envelopes as core keeps them. */
export const heldBytes = (decodedBytes: number, { bytes, compressed = [] }: EnvelopeRun): number =>
  Math.max(decodedBytes, bytes.length + lengthOf(compressed)) + envelopeOverheadBytes;

/**
 * Reports whether an OTLP `ExportTraceServiceRequest` parses, holds at least one span, and every span's name is in `names`. Reads it
 * off the wire, as decoding it would cost more than the rest of ingest together: resource_spans = 1, scope_spans = 2, spans = 2,
 * name = 5 (opentelemetry/proto/trace/v1/trace.proto). Never throws.
 */
export const everySpanNamed = (payload: Uint8Array, names: ReadonlySet<string>): boolean => {
  let spans = 0;
  let matching = true;
  const readSpan = (reader: BinaryReader, end: number): void => {
    spans++;
    // The last value of a field that occurs twice counts; an absent name is "".
    let name = "";
    eachValue(reader, end, 5, (nameEnd) => {
      name = decodeText(payload.subarray(reader.pos, nameEnd));
    });
    if (!names.has(name)) matching = false;
  };
  try {
    readWire(payload, (reader) =>
      eachValue(reader, payload.length, 1, (resourceEnd) =>
        eachValue(reader, resourceEnd, 2, (scopeEnd) =>
          eachValue(reader, scopeEnd, 2, (spanEnd) => readSpan(reader, spanEnd)),
        ),
      ),
    );
  } catch (error) {
    if (error instanceof ProtobufError) return false;
    throw error;
  }
  return matching && spans > 0;
};

const invalid = (detail: string): Problem => new Problem("frame_invalid", { detail });

const faultOf = (
  { kind, payload, source, attributes, observedAt }: Envelope,
  { payloadBytesMax }: FrameLimits,
): Omit<Rejected, "sequence"> | undefined => {
  if (payload.length > payloadBytesMax)
    return { code: "payload_too_large", message: `the payload is over ${payloadBytesMax} bytes` };
  if (!kindPattern.test(kind))
    return { code: "kind_invalid", message: "kind must be 1 to 64 characters of [a-z0-9_]" };
  if (source.includes(nul))
    return { code: "envelope_invalid", message: "source contains a NUL character" };
  for (const name in attributes)
    if (name.includes(nul) || attributes[name]?.includes(nul))
      return { code: "envelope_invalid", message: "attributes contain a NUL character" };
  if (
    observedAt &&
    (observedAt.seconds < timestampSecondsMin ||
      observedAt.seconds > timestampSecondsMax ||
      observedAt.nanos < 0 ||
      observedAt.nanos > 999_999_999)
  )
    return { code: "envelope_invalid", message: "observed_at is not a valid timestamp" };
  return undefined;
};
