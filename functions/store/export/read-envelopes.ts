/**
 * Reads envelopes in the order of their commits. A reader that has everything below a position `from` reads the rows with `from <= xid <
 * to`, where `to` is at most the oldest transaction id in use: every transaction below it has ended, so no row below it can appear later.
 * Ids rise with the sequence in each queue (commit-frames.ts), so a range of them never has an envelope without those before it. No clock
 * decides what is read: every partition is asked, by its index on `xid`.
 *
 * The rows come as binary COPY (PostgreSQL's manual, "COPY", "Binary Format"): as text, payloads would double.
 */
import type { Client, Connection, Submittable } from "pg";

/** An envelope as `ingest_envelope` has it. */
export interface StoredEnvelope {
  hostId: string;
  queueId: Uint8Array;
  sequence: bigint;
  kind: string;
  /** Microseconds since the Unix epoch; null when the sender gave no time. */
  observedAt: bigint | null;
  /** Microseconds since the Unix epoch. */
  receivedAt: bigint;
  source: string;
  attributes: Readonly<Record<string, string>>;
  payload: Uint8Array;
}

/** Which rows to read. */
export interface EnvelopeRange {
  from: bigint;
  to: bigint;
  /** Stops reading beyond so many bytes. */
  bytesMax: number;
}

/** For the session of a reader: the statistics of a partition that grows are always old. */
export const readerSetup = "set enable_seqscan = off; set max_parallel_workers_per_gather = 0; set jit = off";

/** Returns the rows of a range, in no order; null, having read no more than `bytesMax`, when they are more. Rejects when the database fails. */
export const readEnvelopes = (client: Client, range: EnvelopeRange): Promise<StoredEnvelope[] | null> =>
  new Promise((resolve, reject) => {
    client.query(copyOut(range, resolve, reject));
  });

const columns = "host_id, queue_id, sequence, kind, observed_at, received_at, source, attributes, payload";

const statementOf = ({ from, to }: EnvelopeRange): string =>
  `copy (select ${columns} from ingest_envelope where xid >= ${from} and xid < ${to}) to stdout with (format binary)`;

const copyOut = (
  range: EnvelopeRange,
  resolve: (rows: StoredEnvelope[] | null) => void,
  reject: (cause: unknown) => void,
): Submittable => {
  const rows: StoredEnvelope[] = [];
  let bytes = 0;
  let isTooLarge = false;
  let failure: unknown;
  return {
    submit: (connection: Connection) => connection.query(statementOf(range)),
    // PostgreSQL sends each row as one message; the first begins with the format's header.
    handleCopyData({ chunk }: { chunk: Buffer }, connection: Connection) {
      if (isTooLarge || failure !== undefined) return;
      bytes += chunk.length;
      if (bytes > range.bytesMax) {
        isTooLarge = true;
        rows.length = 0;
        // Reading the rest would cost as much as storing it; the connection goes with it.
        connection.stream.destroy();
        return resolve(null);
      }
      try {
        const row = decodeRow(chunk);
        if (row) rows.push(row);
      } catch (cause) {
        failure = cause;
      }
    },
    handleError: (cause: Error) => reject(cause),
    handleReadyForQuery: () => (failure === undefined ? resolve(rows) : reject(failure)),
    handleCommandComplete: () => undefined,
    handleRowDescription: () => undefined,
    handleDataRow: () => undefined,
    handleEmptyQuery: () => undefined,
    handlePortalSuspended: () => undefined,
    callback: () => undefined,
  } as Submittable;
};

const signatureBytes = 19;
const postgresEpochMicroseconds = 946_684_800_000_000n;

/** Decodes a row; undefined for the trailer, and for the header where it comes alone. */
const decodeRow = (chunk: Buffer): StoredEnvelope | undefined => {
  // "PGCOPY" begins the signature; no row has so many columns.
  let at = chunk.readUInt16BE(0) === 0x5047 ? signatureBytes : 0;
  if (at >= chunk.length || chunk.readInt16BE(at) === -1) return undefined;
  at += 2;
  const next = (): Buffer | null => {
    const length = chunk.readInt32BE(at);
    at += 4;
    if (length === -1) return null;
    at += length;
    return chunk.subarray(at - length, at);
  };
  const value = (): Buffer => {
    const bytes = next();
    if (bytes === null) throw new TypeError("a column of an envelope is null");
    return bytes;
  };
  const time = (bytes: Buffer): bigint => bytes.readBigInt64BE() + postgresEpochMicroseconds;
  const hostId = value().toString();
  // Copied: pg reuses the memory of the chunk.
  const queueId = Uint8Array.from(value());
  const sequence = value().readBigInt64BE();
  const kind = value().toString();
  const observed = next();
  const receivedAt = time(value());
  const source = value().toString();
  // jsonb is its version, 1, and the text.
  const json = value().subarray(1);
  const attributes = json.length === 2 ? {} : (JSON.parse(json.toString()) as Record<string, string>);
  const payload = Uint8Array.from(value());
  return {
    hostId,
    queueId,
    sequence,
    kind,
    observedAt: observed && time(observed),
    receivedAt,
    source,
    attributes,
    payload,
  };
};
