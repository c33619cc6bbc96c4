import { unpooled } from "../../kit/buffer-pool.ts";
import { type EncodedRows, encodePrefix, fixedBytes, headerBytes, RowWriter } from "./row-writer.ts";

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

/** Encodes rows for COPY. */
export const encodeEnvelopes = ({ hostId, queueId, receivedAt, rows }: EnvelopeGroup): EncodedRows => {
  const prefix = encodePrefix(hostId, queueId);
  const bytes = rows.reduce((sum, { payload }) => sum + payload.length + prefix.length + fixedBytes + 64, 0);
  const writer = new RowWriter(unpooled, prefix, receivedAt, bytes);
  for (const { sequence, kind, observedAt, source, attributes, payload } of rows) {
    const [kindText, sourceText, json] = [kind, source, JSON.stringify(attributes)].map((text) => Buffer.from(text));
    if (kindText === undefined || sourceText === undefined || json === undefined) continue;
    const low = Number(sequence & 0xffff_ffffn);
    writer.begin(Number(sequence >> 32n), low, kindText.length + sourceText.length + json.length + payload.length);
    writer.text(kindText, 0, kindText.length);
    if (observedAt) writer.moments(Number(observedAt.seconds), Math.floor(observedAt.nanos / 1000));
    else writer.moments(undefined, 0);
    writer.text(sourceText, 0, sourceText.length);
    writer.attributes(json, json.length);
    writer.payload(payload);
  }
  return writer.finish();
};

/** Those of a frame's rows whose sequence is above `cursor`: rows rise in sequence. */
export const rowsAbove = (rows: EncodedRows, cursor: bigint): EncodedRows => {
  const view = new DataView(rows.bytes.buffer, rows.bytes.byteOffset, rows.bytes.length);
  let at = headerBytes;
  let { count, payloadBytes } = rows;
  while (at < rows.bytes.length) {
    const columns = view.getInt16(at);
    let next = at + 2;
    let sequence = 0n;
    let length = 0;
    for (let column = 0; column < columns; column++) {
      length = view.getInt32(next);
      if (column === sequenceColumn) sequence = view.getBigInt64(next + 4);
      next += 4 + Math.max(0, length);
    }
    if (sequence > cursor) break;
    // The payload is the last column.
    payloadBytes -= length;
    count--;
    at = next;
  }
  // A copy: what stands before the rows that are kept must stay as it is.
  const bytes = new Uint8Array(headerBytes + rows.bytes.length - at);
  bytes.set(rows.bytes.subarray(at), headerBytes);
  return { bytes, count, payloadBytes };
};

const sequenceColumn = 2;
