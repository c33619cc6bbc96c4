import type { EnvelopeWriter } from "./envelope-writer.ts";

/** A record as a source appends it: an envelope (docs/protocol.md) without its sequence. Immutable. */
export interface NewRecord {
  /** 1 to 64 characters of `[a-z0-9_]`. */
  readonly kind: string;
  /** Wall time at which the source observed it, milliseconds since the Unix epoch. */
  readonly observedAtMs: number;
  /** The name of the source. */
  readonly source: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly payload: Uint8Array;
}

/** How many records of one kind and source, and the bytes of their payloads. */
export interface RecordCount {
  readonly kind: string;
  readonly source: string;
  records: number;
  bytes: number;
}

/** How many records of one kind and source a rule took. */
export interface RuleCount {
  readonly rule: string;
  readonly kind: string;
  readonly source: string;
  records: number;
}

/** The records that the rules of the config left out (`filtered`), and those that they changed (`redacted`), by rule. */
export interface RuledRecords {
  readonly filtered: readonly RuleCount[];
  readonly redacted: readonly RuleCount[];
}

/** Records that are appended together, in order. Immutable until the append has settled. */
export interface RecordBatch {
  readonly count: number;
  /** The sum of their sizes. */
  readonly bytes: number;
  /** How many of each kind and source. */
  readonly counts: readonly RecordCount[];
  /** Returns the size of record `index` against the queue's cap: more than its envelope has under any sequence. */
  sizeOf(index: number): number;
  /** Returns record `index`. */
  recordAt(index: number): NewRecord;
  /** Returns these records with other payloads, without those that have none. */
  withPayloads?(payloads: readonly (Uint8Array | undefined)[]): RecordBatch;
  /** Writes record `index` as the envelope `sequence`. The writer has room for `sizeOf(index)` bytes. */
  write(writer: EnvelopeWriter, index: number, sequence: number): void;
}

/** Records in the queue with consecutive sequences. */
export interface QueuedRecords {
  /** Rises from 1; a queue never uses one twice. */
  readonly firstSequence: number;
  readonly lastSequence: number;
  /** The sum of their sizes against the queue's cap; more than the length of `envelopes`. */
  readonly bytes: number;
  /**
   * The encoded records, as they are sent: fields `envelopes` of a `Frame`, each with its tag and length. A view of memory that is of
   * this reader, but which the queue reads again if the last call returned a part of it.
   */
  readonly envelopes: Uint8Array;
}

/** A source's position in one of its inputs. A null `value` deletes the key. */
export interface Checkpoint {
  readonly source: string;
  readonly key: string;
  readonly value: string | null;
}
