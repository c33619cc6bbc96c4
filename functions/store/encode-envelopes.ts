/**
 * PostgreSQL's binary COPY format (its manual, "COPY", "Binary Format") for `ingest_envelope`, in chunks of about 256 KiB: a batch is
 * never in memory twice as a whole.
 */

/** One row; text holds no NUL, `sequence` fits a signed 64-bit integer. */
export interface EnvelopeRow {
  sequence: bigint;
  kind: string;
  /** Microseconds since the Unix epoch; null when the sender gave none. */
  observedAtMicroseconds: bigint | null;
  source: string;
  /** A JSON object. */
  attributes: string;
  payload: Uint8Array;
}

/** Rows that share their first two columns and their time of receipt. */
export interface EnvelopeGroup {
  hostId: string;
  queueId: Uint8Array;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  rows: readonly EnvelopeRow[];
}

/** The columns, in the order in which the encoder writes them. */
export const envelopeColumns = [
  "host_id",
  "queue_id",
  "sequence",
  "kind",
  "observed_at",
  "received_at",
  "source",
  "attributes",
  "payload",
] as const;

const signature = Uint8Array.of(0x50, 0x47, 0x43, 0x4f, 0x50, 0x59, 0x0a, 0xff, 0x0d, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0);
const postgresEpochMicroseconds = 946_684_800_000_000n;
const chunkBytes = 256 * 1024;
// UTF-8 takes at most three bytes for each UTF-16 unit.
const utf8BytesMax = (text: string): number => text.length * 3;
const fixedBytes = 2 + 9 * 4 + 3 * 8 + 1;

/** Encodes header, rows and trailer. */
export function* encodeEnvelopes(groups: Iterable<EnvelopeGroup>): Generator<Uint8Array> {
  let chunk = Buffer.allocUnsafe(chunkBytes);
  chunk.set(signature);
  let at = signature.length;

  const writeText = (text: string): void => {
    const length = chunk.write(text, at + 4);
    chunk.writeInt32BE(length, at);
    at += 4 + length;
  };
  const writeBytes = (bytes: Uint8Array): void => {
    chunk.writeInt32BE(bytes.length, at);
    chunk.set(bytes, at + 4);
    at += 4 + bytes.length;
  };
  const writeMicroseconds = (microseconds: bigint): void => {
    chunk.writeInt32BE(8, at);
    chunk.writeBigInt64BE(microseconds - postgresEpochMicroseconds, at + 4);
    at += 12;
  };

  for (const group of groups) {
    const receivedAt = BigInt(group.receivedAt) * 1000n;
    const groupBytes = fixedBytes + utf8BytesMax(group.hostId) + group.queueId.length;
    for (const row of group.rows) {
      const bytesMax =
        groupBytes +
        utf8BytesMax(row.kind) +
        utf8BytesMax(row.source) +
        utf8BytesMax(row.attributes) +
        row.payload.length;
      if (at + bytesMax > chunk.length) {
        yield chunk.subarray(0, at);
        chunk = Buffer.allocUnsafe(Math.max(chunkBytes, bytesMax));
        at = 0;
      }
      at = chunk.writeInt16BE(envelopeColumns.length, at);
      writeText(group.hostId);
      writeBytes(group.queueId);
      chunk.writeInt32BE(8, at);
      chunk.writeBigInt64BE(row.sequence, at + 4);
      at += 12;
      writeText(row.kind);
      if (row.observedAtMicroseconds === null) at = chunk.writeInt32BE(-1, at);
      else writeMicroseconds(row.observedAtMicroseconds);
      writeMicroseconds(receivedAt);
      writeText(row.source);
      // jsonb is its version, 1, and the text.
      const json = chunk.write(row.attributes, at + 5);
      chunk.writeInt32BE(json + 1, at);
      chunk.writeInt8(1, at + 4);
      at += 5 + json;
      writeBytes(row.payload);
    }
  }
  if (at + 2 > chunk.length) {
    yield chunk.subarray(0, at);
    chunk = Buffer.allocUnsafe(2);
    at = 0;
  }
  at = chunk.writeInt16BE(-1, at);
  yield chunk.subarray(0, at);
}
