/** One piece of telemetry as a source hands it over (contract §7, `Envelope` without its sequence). */
export interface NewRecord {
  /** 1 to 64 characters of `[a-z0-9_]`. */
  readonly kind: string;
  /** Wall time at which the source saw it, milliseconds since the Unix epoch. */
  readonly observedAtMs: number;
  /** The name of the source. */
  readonly source: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly payload: Uint8Array;
}

/** A record that is on disk. */
export interface QueuedRecord extends NewRecord {
  /** Rises from 1, never used twice in a queue. */
  readonly sequence: number;
  /** What the record counts against the queue's cap, and an upper bound of its encoded envelope. */
  readonly bytes: number;
}

/** Where a source stands in one of its inputs. `value` null forgets the key. */
export interface Checkpoint {
  readonly source: string;
  readonly key: string;
  readonly value: string | null;
}

/** Row, index and envelope framing: what a record costs beside its own text and payload. */
const overheadBytes = 64;
const attributeOverheadBytes = 12;

/** What a record counts against the queue's cap: no less than its encoded envelope, and about what SQLite needs for it. */
export const recordBytes = (record: NewRecord): number => {
  let bytes =
    overheadBytes + record.payload.byteLength + Buffer.byteLength(record.kind) + Buffer.byteLength(record.source);
  for (const name in record.attributes)
    bytes += Buffer.byteLength(name) + Buffer.byteLength(record.attributes[name] ?? "") + attributeOverheadBytes;
  return bytes;
};
