import { LRUCache } from "lru-cache";
import type { Clock } from "#kit/clock.ts";
import { type FrameOutcome, type FrameToCommit, queueKey } from "../store/ingest/decide-batch.ts";

/** A frame that waits for its commit. */
export interface Pending {
  frame: FrameToCommit;
  bytes: number;
  since: number;
  resolve(outcome: FrameOutcome): void;
  reject(cause: unknown): void;
}

/** The frames of each queue that are in no batch, oldest first; the queues in the order of their turns. */
export type WaitingFrames = ReturnType<typeof createWaitingFrames>;

const isolatedMs = 30_000;
const isolatedMax = 20_000;

/** Creates an empty set of waiting frames. */
export const createWaitingFrames = ({
  clock,
  batchBytesMax,
  isBusy,
  isUnknown,
}: {
  clock: Pick<Clock, "monotonic">;
  batchBytesMax(): number;
  /** Reports whether a queue is in a running batch. */
  isBusy(key: string): boolean;
  /** Reports whether a queue has no expected cursor. */
  isUnknown(key: string): boolean;
}) => {
  const waiting = new Map<string, Pending[]>();
  const held = new Set<string>();
  // Grows as it fills: with `max` it would take the memory of all entries at once.
  const isolated = new LRUCache<string, number>({ maxSize: isolatedMax, sizeCalculation: () => 1 });
  let waitingBytes = 0;

  const isIsolated = (key: string): boolean =>
    isolated.size > 0 && (isolated.get(key) ?? 0) > clock.monotonic();

  return {
    add(pending: Pending) {
      const key = queueKey(pending.frame);
      waitingBytes += pending.bytes;
      const queue = waiting.get(key);
      if (queue) queue.push(pending);
      else waiting.set(key, [pending]);
    },
    /**
     * Removes and returns the frames of queues, oldest first, while they fit; at least one frame, unless every queue has to wait. A queue
     * that has more of them takes its next turn after all others. A queue that is in a running batch joins only a batch in which every queue
     * has an expected cursor.
     */
    removeBatch(): Pending[] {
      const frames: Pending[] = [];
      const bytesMax = batchBytesMax();
      let bytes = 0;
      let hasBusy = false;
      let hasUnknown = false;
      /** Returns false for a queue that has to wait for another batch. */
      const join = (key: string): boolean => {
        const becomesBusy: boolean = hasBusy || isBusy(key);
        const becomesUnknown: boolean = hasUnknown || isUnknown(key);
        if (becomesBusy && becomesUnknown) return false;
        hasBusy = becomesBusy;
        hasUnknown = becomesUnknown;
        return true;
      };
      /** Adds the first frames of a queue while they fit; returns how many. The first frame of a batch always fits. */
      const addFitting = (queued: readonly Pending[]): number => {
        const before = frames.length;
        for (const next of queued) {
          if (frames.length > 0 && bytes + next.bytes > bytesMax) break;
          bytes += next.bytes;
          frames.push(next);
        }
        return frames.length - before;
      };
      for (const [key, queued] of waiting) {
        const isAlone = isIsolated(key);
        if (held.has(key) || (isAlone && frames.length > 0) || !join(key)) continue;
        const taken = addFitting(queued);
        waiting.delete(key);
        if (taken < queued.length) waiting.set(key, queued.slice(taken));
        if (taken < queued.length || isAlone) break;
      }
      waitingBytes -= bytes;
      return frames;
    },
    /** Puts frames back before the later ones of their queues. */
    putBack(frames: readonly Pending[]) {
      for (const pending of frames.toReversed()) {
        const key = queueKey(pending.frame);
        waitingBytes += pending.bytes;
        waiting.set(key, [pending, ...(waiting.get(key) ?? [])]);
      }
    },
    /** Removes nothing of these queues until they are released. */
    hold(keys: Iterable<string>) {
      for (const key of keys) held.add(key);
    },
    release(keys: Iterable<string>) {
      for (const key of keys) held.delete(key);
    },
    /** Removes these queues in batches of their own from now on, for half a minute or until they rejoin. */
    isolate(keys: Iterable<string>) {
      for (const key of keys) isolated.set(key, clock.monotonic() + isolatedMs);
    },
    rejoin(keys: Iterable<string>) {
      if (isolated.size > 0) for (const key of keys) isolated.delete(key);
    },
    rejectAll(reason: unknown) {
      for (const { reject } of [...waiting.values()].flat()) reject(reason);
      waiting.clear();
      waitingBytes = 0;
    },
    bytes: () => waitingBytes,
    /** Returns since when the oldest frame has been waiting; undefined without one. */
    oldest(): number | undefined {
      let oldest: number | undefined;
      for (const [first] of waiting.values())
        if (first && (oldest === undefined || first.since < oldest)) oldest = first.since;
      return oldest;
    },
    isEmpty: () => waiting.size === 0,
  };
};
