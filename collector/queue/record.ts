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

/** A record in the queue. */
export interface QueuedRecord {
  /** Rises from 1; a queue never uses one twice. */
  readonly sequence: number;
  /** The record's size against the queue's cap; more than the length of `envelope`. */
  readonly bytes: number;
  /** The encoded record, as it is sent: a field `envelopes` of a `Frame`, with its tag and length. */
  readonly envelope: Uint8Array;
}

/** A source's position in one of its inputs. A null `value` deletes the key. */
export interface Checkpoint {
  readonly source: string;
  readonly key: string;
  readonly value: string | null;
}
