import type { ChunkOutcome } from "../store/export/positions.ts";
import type { PackedBlock } from "../store/export/read-envelopes.ts";
import { queueKey } from "../store/ingest/decide-batch.ts";

/** Envelopes that are read together, and committed together by one move of the position. */
export interface ExportChunk {
  /** The blocks of each queue in the order of their sequences, behind those of the chunk before. */
  queues: readonly (readonly PackedBlock[])[];
  envelopes: number;
  /** Bytes of memory that the envelopes take unpacked. */
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

/** Groups blocks by queue, each in the order of its sequences. */
export const groupQueues = (blocks: readonly PackedBlock[]): PackedBlock[][] =>
  [...Map.groupBy(blocks, queueKey).values()].map((queue) =>
    queue.sort((a, b) => (a.firstSequence < b.firstSequence ? -1 : 1)),
  );
