/** The columns of a row of `ingest_envelope`, of which the bench's floor copies the same ones again and again. */
export const envelopeColumns =
  "host_id, queue_id, sequence, kind, observed_at, received_at, source, attributes, payload";

/** A row, in the shape of the protobuf message. */
export interface EnvelopeRow {
  hostId: string;
  queueId: Uint8Array;
  sequence: bigint;
  kind: string;
  /** Milliseconds since the Unix epoch. */
  at: number;
  source: string;
  payload: Uint8Array;
}

const postgresEpochMs = 946_684_800_000;

/** Encodes a row in PostgreSQL's binary COPY format (its manual, "COPY", "Binary Format"). */
export const encodeRow = ({ hostId, queueId, sequence, kind, at, source, payload }: EnvelopeRow): Buffer => {
  const int64 = (value: bigint): Buffer => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64BE(value);
    return bytes;
  };
  const time = int64(BigInt(at - postgresEpochMs) * 1000n);
  // jsonb is its version, 1, and the text.
  const attributes = Buffer.from("\u0001{}");
  const texts = [Buffer.from(kind), time, time, Buffer.from(source), attributes, payload];
  const fields = [Buffer.from(hostId), queueId, int64(sequence), ...texts];
  const count = Buffer.from([0, fields.length]);
  const parts = fields.flatMap((field) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(field.length);
    return [length, field];
  });
  return Buffer.concat([count, ...parts]);
};
