import { queueKey } from "../store/ingest/decide-frames.ts";
import type { Pending } from "./waiting-frames.ts";

/** A batch that runs, with the expected cursors of its queues if core has one for each. */
export interface Batch {
  frames: readonly Pending[];
  keys: ReadonlySet<string>;
  expected: ReadonlyMap<string, bigint> | undefined;
  /** Resolves when the earlier batches of the same queues have ended; undefined when there are none. Rejects once the batch yields. */
  turn: Promise<unknown> | undefined;
  /** Shared by the parts of a batch that is retried frame by frame. */
  state: {
    /** Whether earlier batches have not ended, so that nothing of this one is committed. */
    isWaiting: boolean;
    /** Whether its frames are back in `waiting`. */
    hasYielded: boolean;
  };
  yield(): void;
}

/** Makes a batch of frames, and moves the expected cursors of its queues to where it will leave them if they are all known. */
export const beginBatch = (
  frames: readonly Pending[],
  {
    expected,
    endedOf,
  }: {
    expected: { get(key: string): bigint | undefined; set(key: string, cursor: bigint): unknown };
    /** Returns the end of the last running batch of a queue. */
    endedOf(key: string): Promise<void> | undefined;
  },
): Batch => {
  const keys = new Set(frames.map(({ frame }) => queueKey(frame.hostId, frame.queueId)));
  const cursors = new Map<string, bigint>();
  for (const key of keys) {
    const cursor = expected.get(key);
    if (cursor !== undefined) cursors.set(key, cursor);
  }
  const earlier = [...keys].flatMap((key) => endedOf(key) ?? []);
  const yielded = Promise.withResolvers<never>();
  const turn = earlier.length > 0 ? Promise.race([Promise.all(earlier), yielded.promise]) : undefined;
  const state = { isWaiting: turn !== undefined, hasYielded: false };
  const batch: Batch = {
    frames,
    keys,
    expected: cursors.size < keys.size ? undefined : cursors,
    turn,
    state,
    yield() {
      state.hasYielded = true;
      yielded.reject(new Error("the batch yields to a stuck one"));
    },
  };
  // First of all that waits for the turn.
  turn?.then(
    () => (state.isWaiting = false),
    () => undefined,
  );
  if (batch.expected === undefined) return batch;
  for (const { frame } of frames) {
    const key = queueKey(frame.hostId, frame.queueId);
    const cursor = expected.get(key) ?? 0n;
    if (frame.previousSequence <= cursor && frame.lastSequence > cursor) expected.set(key, frame.lastSequence);
  }
  return batch;
};
