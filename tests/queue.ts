import { decodeEnvelope } from "../collector/queue/envelope.ts";
import { openQueue, type Queue, type QueueOptions } from "../collector/queue/queue.ts";
import type { NewRecord, QueuedRecord } from "../collector/queue/record.ts";
import { systemClock } from "../kit/clock.ts";
import { createSeededEntropy } from "./fakes/entropy.ts";

/** Opens a queue in `dir` with the collector's default limits, on the system clock unless `options` has another. */
export const openTestQueue = (dir: string, options: Partial<QueueOptions> = {}): Queue =>
  openQueue({
    dir,
    maxDiskUsageBytes: 100_000_000,
    maxRecordAgeSeconds: 604_800,
    dropNewestOnFull: false,
    atRiskBytesPercent: 80,
    atRiskOldestSeconds: 86_400,
    clock: systemClock,
    entropy: createSeededEntropy(1),
    ...options,
  });

/** A decoded record, with its sequence and size in the queue. */
export type StoredRecord = NewRecord & Pick<QueuedRecord, "sequence" | "bytes">;

/** Reads all records above a sequence, oldest first. */
export const readAll = (queue: Queue, beyond = 0): StoredRecord[] =>
  queue
    .read(beyond, { maxRecords: 1_000_000, maxBytes: Number.MAX_SAFE_INTEGER })
    .map(({ sequence, bytes, envelope }) => ({ ...decodeEnvelope(envelope), sequence, bytes }));

/** Creates a record of `text`, padded to `size` bytes. */
export const testRecord = (text: string, size = text.length): NewRecord => ({
  kind: "log_line",
  observedAtMs: 1_700_000_000_123,
  source: "file",
  attributes: { "file.path": "/var/log/ü.log", "file.offset": "7" },
  payload: new TextEncoder().encode(text.padEnd(size, ".")),
});
