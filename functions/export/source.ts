import type { ExportDeadLetter, RejectedEnvelope } from "../store/export/dead-letters.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";

/** Envelopes that are read together, and committed together by one move of the position. */
export interface ExportChunk {
  /** The envelopes of each queue in the order of their sequence, behind those of the chunk before. */
  queues: readonly (readonly StoredEnvelope[])[];
  envelopes: number;
  /** Bytes of memory that the envelopes take. */
  bytes: number;
}

/** The outcome of a chunk. */
export interface ChunkOutcome {
  exported: number;
  rejectedItems: number;
  deadLetters: readonly ExportDeadLetter[];
  /** Envelopes that the backend rejected and that are not kept, because their hosts have reached their limit of dead letters. */
  dropped: readonly ExportDeadLetter[];
  /** Items that the backend rejected of otherwise accepted envelopes: of one host, up to the named envelope. */
  partial: readonly RejectedEnvelope[];
}

/** Where an export reads committed envelopes, with a durable position of its own. */
export interface ExportSource {
  /** Returns the chunk after the last one; null when there is nothing new. */
  read(): Promise<ExportChunk | null>;
  /**
   * Stores durably that a chunk, and each one before, is done; call it in the order of `read`. Throws if another process has taken over: then
   * nothing of the chunk is stored, and that process sends it again.
   */
  commit(chunk: ExportChunk, outcome: ChunkOutcome): Promise<void>;
}

/** A source, and the end of its connections. */
export interface ClosableSource extends ExportSource {
  close(): void;
}
