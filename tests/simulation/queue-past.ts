/** What the oracle knows of a queue beside its disk: what it ever stored. It goes back with the disk. */
import { decodeEnvelope } from "../../collector/queue/envelope.ts";

/** A record that was stored. */
export interface PastRecord {
  readonly sequence: number;
  readonly text: string;
  readonly kind: string;
  /** By the host's clock. */
  readonly wallMs: number;
}

/** What a queue ever stored, and its ids, oldest first. */
export interface QueuePast {
  readonly records: readonly PastRecord[];
  readonly queues: readonly string[];
}

/** A queue that has stored nothing. */
export const emptyPast: QueuePast = { records: [], queues: [] };

/** Returns what a stored envelope is. */
export const pastRecordOf = (envelope: Uint8Array, at: { sequence: number; wallMs: number }): PastRecord => {
  const { kind, payload } = decodeEnvelope(envelope);
  return { ...at, kind, text: Buffer.from(payload).toString() };
};

/** Adds what a transaction stored, and the id of the queue. */
export const continuePast = (
  past: QueuePast,
  { queueId }: { queueId: Uint8Array },
  stored: readonly PastRecord[],
): QueuePast => {
  const queue = queueId.toHex();
  const isKnown = past.queues.includes(queue);
  if (isKnown && stored.length === 0) return past;
  return {
    records: [...past.records, ...stored],
    queues: isKnown ? past.queues : [...past.queues, queue],
  };
};
