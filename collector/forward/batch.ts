import type { Clock } from "../../kit/clock.ts";
import type { Queue } from "../queue/queue.ts";
import type { QueuedRecords } from "../queue/record.ts";

/** Limits of a frame, which is sent when it reaches either, or `lingerMs` after its first record was read. */
export interface BatchLimits {
  maxEnvelopes: number;
  /** The limit of `QueuedRecords.bytes`, which is at least the encoded size. A larger record is a frame of its own. */
  maxBytes: number;
  lingerMs: number;
}

/** Resolves with the next records above `sequence`, once there is at least one. Rejects with the signal's reason. */
export const nextBatch = async (
  queue: Pick<Queue, "read" | "waitBeyond" | "lastSequence">,
  sequence: number,
  limits: BatchLimits,
  clock: Clock,
  signal: AbortSignal,
): Promise<QueuedRecords[]> => {
  const { maxEnvelopes, maxBytes, lingerMs } = limits;
  const batch: QueuedRecords[] = [];
  let envelopes = 0;
  let bytes = 0;
  let seen = sequence;
  let linger: AbortController | undefined;
  while (linger?.signal.aborted !== true) {
    signal.throwIfAborted();
    const found = queue.read(seen, { maxRecords: maxEnvelopes - envelopes, maxBytes: maxBytes - bytes });
    for (const records of found) {
      if (batch.length > 0 && bytes + records.bytes > maxBytes) return batch;
      batch.push(records);
      envelopes += records.lastSequence - records.firstSequence + 1;
      bytes += records.bytes;
      seen = records.lastSequence;
    }
    if (envelopes >= maxEnvelopes || bytes >= maxBytes) return batch;
    if (found.length > 0) continue;
    // No record is left up to here: those removed in between must not wake this loop again.
    seen = queue.lastSequence;
    if (batch.length === 0) {
      await queue.waitBeyond(seen, signal);
    } else {
      linger ??= startLinger(lingerMs, clock, signal);
      await queue.waitBeyond(seen, linger.signal).catch(() => undefined);
    }
  }
  signal.throwIfAborted();
  return batch;
};

const startLinger = (lingerMs: number, clock: Clock, signal: AbortSignal): AbortController => {
  const linger = new AbortController();
  const end = () => linger.abort("the linger has ended");
  clock.sleep(lingerMs, signal).then(end, end);
  return linger;
};
