/** One piece of telemetry as a source hands it over (contract §7, `Envelope` without its sequence). It does not change any more. */
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
export interface QueuedRecord {
  /** Rises from 1, never used twice in a queue. */
  readonly sequence: number;
  /** What the record counts against the queue's cap; more than the length of `envelope`. */
  readonly bytes: number;
  /** The record as it is sent: a field `envelopes` of a `Frame`, tag and length included. */
  readonly envelope: Uint8Array;
}

/** Where a source stands in one of its inputs. `value` null forgets the key. */
export interface Checkpoint {
  readonly source: string;
  readonly key: string;
  readonly value: string | null;
}
