/**
 * Rows of `ingest_block` in PostgreSQL's binary COPY format (its manual, "COPY", "Binary Format"), each as one CopyData message.
 */

import { lengthOf } from "#kit/bytes.ts";
import { type EnvelopeRun, rawBytesOf } from "./envelope-run.ts";
import { type EncodedRun, storedEncodings } from "./stored-envelope.ts";

/** The columns, in the order of a row's values. */
export const blockColumns = [
  "host_id",
  "queue_id",
  "first_sequence",
  "last_sequence",
  "envelopes",
  "kinds",
  "raw_bytes",
  "payload_bytes",
  "observed_from",
  "observed_to",
  "received_at",
  "digest",
  "encoding",
  "data",
] as const;

/** A run of one queue, and its time of receipt, in milliseconds since the Unix epoch. */
export interface BlockToStore {
  hostId: string;
  queueId: Uint8Array;
  receivedAt: number;
  run: EnvelopeRun;
}

/** A block as it is stored. */
export interface EncodedBlock extends BlockToStore, EncodedRun {
  /** As `joinDigest` returns it. */
  digest: Uint8Array;
}

const postgresEpochMs = 946_684_800_000;
const textOid = 25;
/** The type of a CopyData message. */
export const copyData = 0x64;

/** Encodes the CopyData message of a block. */
export const encodeBlockRow = ({
  hostId,
  queueId,
  receivedAt,
  run,
  digest,
  encoding,
  data,
}: EncodedBlock): Buffer => {
  const { count, payloadBytes, observed } = run;
  const host = Buffer.from(hostId);
  const kinds = Array.from(run.kinds.keys(), (kind) => Buffer.from(kind));
  const kindsBytes = 20 + kinds.reduce((sum, kind) => sum + 4 + kind.length, 0);
  const fixedBytes = 5 + 2 + blockColumns.length * 4 + 5 * 8 + 3 * 4 + 2;
  const row = Buffer.allocUnsafe(
    fixedBytes + host.length + queueId.length + kindsBytes + digest.length + lengthOf(data),
  );
  let at = 5;
  const int16 = (value: number) => (at = row.writeInt16BE(value, at));
  const int32 = (value: number) => (at = row.writeInt32BE(value, at));
  const bytes = (value: Uint8Array) => {
    row.set(value, at);
    at += value.length;
  };
  const field = (value: Uint8Array) => {
    int32(value.length);
    bytes(value);
  };
  const bigint = (value: bigint) => {
    int32(8);
    at = row.writeBigInt64BE(value, at);
  };
  const integer = (value: number) => {
    int32(4);
    int32(value);
  };
  const time = (ms: number | undefined) => {
    if (ms === undefined) int32(-1);
    else bigint(BigInt(ms - postgresEpochMs) * 1000n);
  };
  int16(blockColumns.length);
  field(host);
  field(queueId);
  bigint(run.firstSequence);
  bigint(run.lastSequence);
  integer(count);
  int32(kindsBytes);
  for (const head of [1, 0, textOid, kinds.length, 1]) int32(head);
  kinds.forEach(field);
  integer(rawBytesOf(run));
  integer(payloadBytes);
  time(observed && observed.from * 1000);
  time(observed && (observed.to + 1) * 1000);
  time(receivedAt);
  field(digest);
  int32(2);
  int16(storedEncodings[encoding]);
  int32(lengthOf(data));
  for (const part of data) bytes(part);
  row[0] = copyData;
  row.writeUInt32BE(at - 1, 1);
  return row.subarray(0, at);
};
