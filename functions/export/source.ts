import type { ChunkOutcome } from "../store/export/positions.ts";
import { queueKey } from "../store/ingest/decide-batch.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";

/** Envelopes that are read together, and committed together by one move of the position. */
export interface ExportChunk {
  /** The envelopes of each queue in the order of their sequence, behind those of the chunk before. */
  queues: readonly (readonly StoredEnvelope[])[];
  envelopes: number;
  /** Bytes of memory that the envelopes take. */
  bytes: number;
  /**
   * Stores durably that the chunk, and each one before, is done; call it in the order of `read`. Throws if another process has taken over: then
   * nothing of the chunk is stored, and that process sends it again.
   */
  commit(outcome: ChunkOutcome): Promise<void>;
}

/** Where an export reads committed envelopes, with a durable position of its own. */
export interface ExportSource {
  /** Returns the chunk after the last one; null when there is nothing new. */
  read(): Promise<ExportChunk | null>;
  close(): void;
}

/** Groups envelopes by queue, each in the order of its sequence. */
export const groupQueues = (envelopes: readonly StoredEnvelope[]): StoredEnvelope[][] =>
  [...Map.groupBy(envelopes, queueKey).values()].map((queue) =>
    queue.sort((a, b) => (a.sequence < b.sequence ? -1 : 1)),
  );
