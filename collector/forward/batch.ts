import type { Clock } from "#kit/clock.ts";
import type { Queue } from "../queue/queue.ts";
import type { QueuedRecords } from "../queue/record.ts";

/** Limits of a frame, which is sent when it reaches either, or `lingerMs` after its first record was read. */
export interface BatchLimits {
  maxEnvelopes: number;
  /** The limit of `QueuedRecords.bytes`, which is at least the encoded size. A larger record is a frame of its own. */
  maxBytes: number;
  lingerMs: number;
}

/** How far the queue may be read for now. */
export interface BatchGate {
  /** Returns the last sequence that may be in a frame with what follows `sequence`. */
  through(sequence: number): number;
  /** Resolves when it may have changed; rejects with the signal's reason. */
  changed(signal: AbortSignal): Promise<void>;
}

/**
 * Resolves with the next records above `sequence` that the gate lets through, once there is at least one. Rejects with the signal's reason.
 */
export const nextBatch = async (
  queue: Pick<Queue, "read" | "waitBeyond" | "lastSequence">,
  sequence: number,
  limits: BatchLimits,
  { clock, gate }: { clock: Clock; gate: BatchGate },
  signal: AbortSignal,
): Promise<QueuedRecords[]> => {
  const { maxEnvelopes, maxBytes, lingerMs } = limits;
  const batch: QueuedRecords[] = [];
  let envelopes = 0;
  let bytes = 0;
  let seen = sequence;
  let linger: AbortController | undefined;
  /** Returns false at the first records that do not fit. */
  const add = (found: readonly QueuedRecords[]) => {
    for (const records of found) {
      if (batch.length > 0 && bytes + records.bytes > maxBytes) return false;
      batch.push(records);
      envelopes += records.lastSequence - records.firstSequence + 1;
      bytes += records.bytes;
      seen = records.lastSequence;
    }
    return true;
  };
  while (linger?.signal.aborted !== true) {
    signal.throwIfAborted();
    const through = gate.through((batch[0]?.firstSequence ?? seen + 1) - 1);
    if (seen >= through && batch.length > 0) return batch;
    if (seen >= through) {
      await gate.changed(signal);
      continue;
    }
    const bounds = { maxRecords: maxEnvelopes - envelopes, maxBytes: maxBytes - bytes };
    const found = readThrough(queue, seen, through, bounds);
    if (!add(found) || envelopes >= maxEnvelopes || bytes >= maxBytes) return batch;
    if (found.length > 0) continue;
    // No record is left up to here: those removed in between must not wake this loop again.
    seen = Math.min(queue.lastSequence, through);
    if (seen >= through) continue;
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

/** Reads records up to `through`. */
const readThrough = (
  queue: Pick<Queue, "read">,
  seen: number,
  through: number,
  bounds: { maxRecords: number; maxBytes: number },
): QueuedRecords[] => {
  const found = queue.read(seen, bounds);
  if ((found.at(-1)?.lastSequence ?? 0) <= through) return found;
  const within = found.reduce(
    (sum, { firstSequence, lastSequence }) =>
      sum + Math.max(0, Math.min(lastSequence, through) - firstSequence + 1),
    0,
  );
  return within === 0 ? [] : queue.read(seen, { ...bounds, maxRecords: within });
};

const startLinger = (lingerMs: number, clock: Clock, signal: AbortSignal): AbortController => {
  const linger = new AbortController();
  const end = () => linger.abort("the linger has ended");
  clock.sleep(lingerMs, signal).then(end, end);
  return linger;
};
