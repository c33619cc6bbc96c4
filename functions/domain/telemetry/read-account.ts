import { fromBinary } from "@bufbuild/protobuf";
import type { SourceVolume } from "#functions/store/volume/sources.ts";
import { highest, lowest } from "#kit/bigint.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { type AccountBody, AccountBodySchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { queueIdBytes, sequenceMax } from "#proto/limits/message-limits.ts";

/** Why core refuses an account, and stores it as evidence. */
const accountFaults = [
  /** It is no `AccountBody`, or has a number that no host can have. */
  "malformed",
  /** It names another host than the caller. */
  "host_mismatch",
  /** Core knows no certificate of this host by that fingerprint. */
  "certificate_unknown",
  "certificate_revoked",
  "signature_invalid",
  /** Its counts do not match its range or its times. */
  "contradicts_itself",
  /** Its range overlaps the one before, or core has more of it than the host accepted. */
  "contradicts_sequences",
  /** It names another predecessor than core has. */
  "predecessor_differs",
  /** Core has another account of this number. */
  "number_used",
  /** An earlier account ended its queue. */
  "queue_ended",
  /** Its host has sent too many; core has not read it. */
  "rate_limited",
] as const;

/** One of `accountFaults`. */
export type AccountFault = (typeof accountFaults)[number];

/** An account's statement, as core reads it. Times are in milliseconds since the Unix epoch. */
export interface ReadAccount {
  hostId: string;
  queueId: Uint8Array;
  number: bigint;
  previousSha256: Uint8Array;
  /** The earlier id of the queue whose last account number 1 follows; empty for none. */
  previousQueueId: Uint8Array;
  certificateSha256: Uint8Array;
  fromMs: number;
  toMs: number;
  firstSequence: bigint;
  lastSequence: bigint;
  isStopped: boolean;
  /** It is the last of its queue. */
  isEnd: boolean;
  /** All accepted records. */
  accepted: bigint;
  /** The accepted records by kind and source. */
  sources: SourceVolume[];
  /** Sequences that were acknowledged under another queue. */
  ackedBefore: bigint;
  fault: AccountFault | undefined;
}

const sha256Bytes = 32;
/** The end of 9999. */
const timeMsMax = 253_402_300_799_999;

/** Parses the body of an account; undefined if it is unreadable. */
export const readAccount = (bytes: Uint8Array): ReadAccount | undefined => {
  const body = decodeBody(bytes);
  if (body === undefined) return undefined;
  const accepted = body.accepted.reduce((sum, { records }) => sum + records, 0n);
  const { firstSequence, lastSequence, ackedBeforeThrough } = body;
  return {
    hostId: body.hostId,
    queueId: body.queueId,
    number: body.number,
    previousSha256: body.previousSha256,
    previousQueueId: body.previousQueueId,
    certificateSha256: body.certificateSha256,
    fromMs: Math.min(Number(body.fromMs), timeMsMax),
    toMs: Math.min(Number(body.toMs), timeMsMax),
    firstSequence,
    lastSequence,
    isStopped: body.stopped,
    isEnd: body.ended,
    accepted,
    sources: body.accepted.map(({ kind, source, records, bytes: payloadBytes }) => ({
      kind,
      source,
      records,
      payloadBytes,
    })),
    ackedBefore: lowest(highest(ackedBeforeThrough - firstSequence + 1n, 0n), accepted),
    fault: faultOf(body, accepted),
  };
};

const decodeBody = (bytes: Uint8Array): AccountBody | undefined => {
  try {
    return fromBinary(AccountBodySchema, bytes);
  } catch {
    return undefined;
  }
};

const faultOf = (body: AccountBody, accepted: bigint): AccountFault | undefined => {
  const { number, fromMs, toMs, firstSequence, lastSequence, stopped } = body;
  const counts = [number, lastSequence, accepted, ...numbersOf(body)];
  if (
    body.queueId.length !== queueIdBytes ||
    body.certificateSha256.length !== sha256Bytes ||
    number === 0n
  )
    return "malformed";
  if (counts.some((count) => count > sequenceMax) || toMs > timeMsMax || fromMs > timeMsMax)
    return "malformed";
  if (lastSequence + 1n < firstSequence || accepted !== lastSequence - firstSequence + 1n)
    return "contradicts_itself";
  if (toMs < fromMs || (stopped && accepted > 0n)) return "contradicts_itself";
  const hourOf = (ms: number) => Math.floor(ms / hourMs);
  const isOneHour = toMs === fromMs || hourOf(Number(fromMs)) === hourOf(Number(toMs) - 1);
  return stopped || isOneHour ? undefined : "contradicts_itself";
};

const numbersOf = ({ accepted, refused, filtered, redacted, ...body }: AccountBody): bigint[] => [
  ...accepted.flatMap(({ records, bytes }) => [records, bytes]),
  ...[...refused, ...filtered, ...redacted].map(({ records }) => records),
  body.expired,
  body.damaged,
  body.fileGapBytes,
  body.fileGaps,
  body.fileGapsUnknown,
  body.waitedMs,
];

/** The day of an account by its host's clock, or by core's if the host's time is impossible. */
export const dayOfAccount = ({ fromMs }: ReadAccount, now: number): number =>
  Math.floor((fromMs > now + dayMs || fromMs < now - 400 * dayMs ? now : fromMs) / dayMs);
