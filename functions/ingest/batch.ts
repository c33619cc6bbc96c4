/** The batches of the committer (committer.ts): which frames commit together, and which batches they wait for. */
import type { LRUCache } from "lru-cache";
import type { Clock } from "#kit/clock.ts";
import { queueKey } from "../store/ingest/decide-batch.ts";
import type { Pending } from "./waiting-frames.ts";

/** The cursors that core expects, by queue. */
export type ExpectedCursors = Pick<LRUCache<string, bigint>, "get" | "set" | "delete">;

/** Deletes the expected cursors of queues: where they are is not known. */
export const forgetCursors = (cursors: ExpectedCursors, keys: Iterable<string>): void => {
  for (const key of keys) cursors.delete(key);
};

/**
 * The state of a batch that runs:
 * - "behind": earlier batches of its queues have not ended, so nothing of it is committed. It becomes "first" when they end, "yielded" when
 *   the committer puts its frames back, and ends with its failure.
 * - "first": it commits as soon as the server has its rows. It ends with its commit or its failure.
 * - "yielded": its frames are in a later batch. It ends, and settles none of them.
 */
type BatchState =
  | { name: "behind"; yield(): void }
  | { name: "first"; since: number }
  | { name: "yielded" };

/** How long a batch has run: it begins "prompt", then becomes "slow" and then "stuck", unless it ends. */
export type BatchPace = "prompt" | "slow" | "stuck";

/** Frames to commit together, with the expected cursors of their queues if core has one for each. */
export interface FrameGroup {
  readonly frames: readonly Pending[];
  readonly bytes: number;
  readonly keys: ReadonlySet<string>;
  readonly expected: ReadonlyMap<string, bigint> | undefined;
}

/** A batch that runs. */
export interface Batch extends FrameGroup {
  /** Resolves when the earlier batches of the same queues have ended; undefined when there are none. Rejects once the batch yields. */
  readonly turn: Promise<unknown> | undefined;
  state: BatchState;
  pace: BatchPace;
  /** Resolves when it ends. */
  ended: Promise<void>;
}

/** Groups frames; `expected` is undefined unless it has a cursor for each queue. */
export const groupFrames = (
  frames: readonly Pending[],
  expected?: Pick<ExpectedCursors, "get">,
): FrameGroup => {
  const keys = new Set(frames.map(({ frame }) => queueKey(frame)));
  const cursors = new Map<string, bigint>();
  for (const key of keys) {
    const cursor = expected?.get(key);
    if (cursor !== undefined) cursors.set(key, cursor);
  }
  const bytes = frames.reduce((sum, pending) => sum + pending.bytes, 0);
  return { frames, bytes, keys, expected: cursors.size < keys.size ? undefined : cursors };
};

/** Creates a batch, and moves the expected cursors of its queues to where it will leave them if they are all known. */
export const beginBatch = (
  frames: readonly Pending[],
  expected: ExpectedCursors,
  running: Iterable<Batch>,
  clock: Pick<Clock, "monotonic">,
): Batch => {
  const group = groupFrames(frames, expected);
  const earlier = [...running].filter(({ keys }) => !keys.isDisjointFrom(group.keys));
  const batch =
    earlier.length === 0 ? beginFirst(group, clock) : beginBehind(group, earlier, clock);
  if (group.expected === undefined) return batch;
  for (const { frame } of frames) {
    const key = queueKey(frame);
    const cursor = expected.get(key) ?? 0n;
    if (frame.previousSequence <= cursor && frame.lastSequence > cursor)
      expected.set(key, frame.lastSequence);
  }
  return batch;
};

const beginFirst = (group: FrameGroup, clock: Pick<Clock, "monotonic">): Batch => ({
  ...group,
  turn: undefined,
  state: { name: "first", since: group.frames[0]?.since ?? clock.monotonic() },
  pace: "prompt",
  ended: Promise.resolve(),
});

const beginBehind = (
  group: FrameGroup,
  earlier: readonly Batch[],
  clock: Pick<Clock, "monotonic">,
): Batch => {
  const yielded = Promise.withResolvers<never>();
  const turn = Promise.race([Promise.all(earlier.map(({ ended }) => ended)), yielded.promise]);
  const behind: BatchState = {
    name: "behind",
    yield() {
      batch.state = { name: "yielded" };
      yielded.reject(new Error("the batch yields to a stuck one"));
    },
  };
  const batch: Batch = { ...group, turn, state: behind, pace: "prompt", ended: Promise.resolve() };
  // First of all that waits for the turn.
  turn.then(
    () => {
      if (batch.state === behind) batch.state = { name: "first", since: clock.monotonic() };
    },
    () => undefined,
  );
  return batch;
};
