/**
 * PostgreSQL's binary COPY format (its manual, "COPY", "Binary Format") for `ingest_envelope`, in chunks of about 256 KiB, so that a
 * batch is never in memory twice as a whole. This is the hottest loop of core: it allocates nothing for a row.
 */

/** One row, in the shape of the protobuf message; text holds no NUL, `sequence` fits a signed 64-bit integer. */
export interface EnvelopeRow {
  sequence: bigint;
  kind: string;
  /** Absent when the sender gave none; years 1 to 9999. */
  observedAt?: { seconds: bigint; nanos: number } | undefined;
  source: string;
  attributes: Readonly<Record<string, string>>;
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
const postgresEpochSeconds = 946_684_800;
const chunkBytesMax = 256 * 1024;
// Lengths, the three fixed-width columns and the version of jsonb.
const fixedBytes = 7 * 4 + 3 * 8 + 1;
const textsKeptMax = 256;

/** Encodes header, rows and trailer. */
export function* encodeEnvelopes(groups: readonly EnvelopeGroup[]): Generator<Uint8Array> {
  const chunkBytes = chunkBytesFor(groups);
  let chunk = Buffer.allocUnsafe(chunkBytes);
  let view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
  chunk.set(signature);
  let at = signature.length;
  const textField = createTextFields();

  const put = (bytes: Uint8Array): void => {
    chunk.set(bytes, at);
    at += bytes.length;
  };
  const putBytesField = (bytes: Uint8Array): void => {
    view.setInt32(at, bytes.length);
    chunk.set(bytes, at + 4);
    at += 4 + bytes.length;
  };
  const putMoment = (seconds: number, microseconds: number): void => {
    view.setInt32(at, 8);
    const value = (seconds - postgresEpochSeconds) * 1_000_000 + microseconds;
    // Exact as a double from 1714 to 2285, and then without a BigInt.
    if (Number.isSafeInteger(value)) {
      view.setInt32(at + 4, Math.floor(value / 0x1_0000_0000));
      view.setUint32(at + 8, value >>> 0);
    } else view.setBigInt64(at + 4, BigInt(seconds - postgresEpochSeconds) * 1_000_000n + BigInt(microseconds));
    at += 12;
  };

  for (const { hostId, queueId, receivedAt, rows } of groups) {
    const prefix = encodePrefix(hostId, queueId);
    const receivedSeconds = Math.floor(receivedAt / 1000);
    const receivedMicroseconds = (receivedAt - receivedSeconds * 1000) * 1000;
    for (const { sequence, kind, observedAt, source, attributes, payload } of rows) {
      const kindField = textField(kind);
      const sourceField = textField(source);
      const json = encodeAttributes(attributes);
      const bytes = prefix.length + kindField.length + sourceField.length + json.length + payload.length + fixedBytes;
      if (at + bytes > chunk.length) {
        yield chunk.subarray(0, at);
        chunk = Buffer.allocUnsafe(Math.max(chunkBytes, bytes));
        view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
        at = 0;
      }
      put(prefix);
      view.setInt32(at, 8);
      view.setBigInt64(at + 4, sequence);
      at += 12;
      put(kindField);
      if (observedAt === undefined) {
        view.setInt32(at, -1);
        at += 4;
      } else putMoment(Number(observedAt.seconds), Math.floor(observedAt.nanos / 1000));
      putMoment(receivedSeconds, receivedMicroseconds);
      put(sourceField);
      putBytesField(json);
      putBytesField(payload);
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

/** A batch of a few rows takes a chunk of its size. */
const chunkBytesFor = (groups: readonly EnvelopeGroup[]): number => {
  let bytes = signature.length;
  for (const { rows } of groups) {
    for (const { payload } of rows) bytes += payload.length + 512;
    if (bytes >= chunkBytesMax) return chunkBytesMax;
  }
  return bytes;
};

/** What every row of a group begins with: the number of columns, and the first two. */
const encodePrefix = (hostId: string, queueId: Uint8Array): Uint8Array => {
  const host = Buffer.from(hostId);
  const prefix = Buffer.alloc(2 + 4 + host.length + 4 + queueId.length);
  prefix.writeInt16BE(envelopeColumns.length);
  prefix.writeInt32BE(host.length, 2);
  prefix.set(host, 6);
  prefix.writeInt32BE(queueId.length, 6 + host.length);
  prefix.set(queueId, 10 + host.length);
  return prefix;
};

/** Text fields with their length, kept while a batch lasts: kinds and sources repeat. */
const createTextFields = (): ((text: string) => Uint8Array) => {
  const kept = new Map<string, Uint8Array>();
  return (text) => {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const bytes = Buffer.from(text);
    const field = Buffer.alloc(4 + bytes.length);
    field.writeInt32BE(bytes.length);
    field.set(bytes, 4);
    if (kept.size < textsKeptMax) kept.set(text, field);
    return field;
  };
};

// jsonb is its version, 1, and the text.
const noAttributes = Buffer.from("\u0001{}");

const encodeAttributes = (attributes: Readonly<Record<string, string>>): Uint8Array => {
  for (const _ in attributes) return Buffer.from(`\u0001${JSON.stringify(attributes)}`);
  return noAttributes;
};
