/** What the oracle knows of a queue beside its disk: what it ever stored. It goes back with the disk. */
import { decodeEnvelope } from "#collector/queue/envelope.ts";

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

/** Core has opened a queue, or has received it through a sequence: as the world saw it at core, and by what its host was answered. */
export interface Heard {
  queueHex: string;
  at: number;
  /** Undefined: it was opened, in a session that its host began then. */
  through: number | undefined;
}

/** What a disk lost at a time: all that it had, or what it did not have in an image of `since`, which ends with `through`. */
export interface DiskLoss {
  queueHex: string;
  at: number;
  since: number;
  through: number;
}

/** Reports whether core heard of a queue what a loss of its disk took back. */
export const isTold = (loss: DiskLoss, heard: readonly Heard[] = []): boolean =>
  heard.some(
    ({ queueHex, at, through }) =>
      queueHex === loss.queueHex &&
      at <= loss.at &&
      (through === undefined ? at > loss.since : through > loss.through),
  );

/** A queue that was lost goes on, once it is put back, as if it had not been, unless core has received newer records of it. */
export const putBack = (
  { lost }: Pick<Ledger, "lost">,
  heard: readonly Heard[],
  back: Omit<DiskLoss, "at">,
): void => {
  for (const [text, loss] of lost) {
    if (loss?.queueHex !== back.queueHex || loss.since >= back.since) continue;
    const again = { ...loss, ...back };
    lost.set(text, isTold(again, heard) ? again : undefined);
  }
};

/** What the world knows of a machine and its copies: no fault takes it back. Times are by the host's clock. */
export interface Ledger {
  /** The records that its queues ever stored, by their texts. */
  readonly written: Map<string, { sequence: number; wallMs: number }>;
  /** How many of these were written before its identity was revoked. */
  valid: number;
  /** Its wall clock has jumped: nobody can know of what hours it then was. */
  hasJumped: boolean;
  /** The ids of its queues, in hex. */
  readonly queues: Set<string>;
  /** When a source could not store, or a log file was lost. Empty once the host may have forgotten it. */
  readonly dropped: number[];
  /** The dead letters that its queues ever had. */
  readonly letters: { readonly sequence: number; readonly code: string }[];
  /** The records that a disk lost, or may have; undefined: its host was answered nothing that the disk took back, or nobody knows of what. */
  readonly lost: Map<string, DiskLoss | undefined>;
}

/** Creates an empty one. */
export const createLedger = (): Ledger => ({
  written: new Map(),
  valid: Number.POSITIVE_INFINITY,
  hasJumped: false,
  queues: new Set(),
  dropped: [],
  letters: [],
  lost: new Map(),
});

/** A queue that has stored nothing. */
export const emptyPast: QueuePast = { records: [], queues: [] };

/** Returns what a stored envelope is. */
export const pastRecordOf = (
  envelope: Uint8Array,
  at: { sequence: number; wallMs: number },
): PastRecord => {
  const { kind, payload } = decodeEnvelope(envelope);
  return { ...at, kind, text: Buffer.from(payload).toString() };
};

/** Adds what a transaction stored, and the id of the queue, also to the ledger. */
export const continuePast = (
  past: QueuePast,
  { queueId }: { queueId: Uint8Array },
  {
    stored,
    letters,
    ledger,
  }: { stored: readonly PastRecord[]; ledger: Ledger } & Pick<Ledger, "letters">,
): QueuePast => {
  const queue = queueId.toHex();
  ledger.queues.add(queue);
  ledger.letters.push(...letters);
  for (const { text, ...record } of stored) ledger.written.set(text, record);
  const isKnown = past.queues.includes(queue);
  if (isKnown && stored.length === 0) return past;
  return {
    records: [...past.records, ...stored],
    queues: isKnown ? past.queues : [...past.queues, queue],
  };
};
