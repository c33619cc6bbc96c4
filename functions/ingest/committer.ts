/**
 * Self-clocking group commit: as soon as a connection is idle, everything that is pending commits as one batch. Under low load a frame
 * does not wait; under high load batches grow until the disk keeps up. A second batch runs in parallel only when it is worth its
 * transaction, or the first is slow: many small senders are served best by few batches.
 *
 * Invariants:
 * - A frame resolves only after its batch has committed; a batch that failed rejects all its frames.
 * - Frames of one queue commit in the order of their calls. Two batches of a queue may copy in parallel when core knows the queue's
 *   cursor; the later one commits after the earlier, and only if the cursor is then at its expected value. `expected` is a guess that
 *   the transaction checks, wrong when the earlier batch failed or another core wrote. Then the batch runs again without it.
 * - The committer has no bound of its own: the caller's byte budget bounds what is pending.
 */

import { LRUCache } from "lru-cache";
import type { Client } from "pg";
import type { Clock } from "../../kit/clock.ts";
import {
  type CommittedFrame,
  commitFrames,
  commitFramesAhead,
  type FrameToCommit,
  queueKey,
} from "../store/commit-frames.ts";
import { destroyClient } from "../store/copy-transaction.ts";
import { canRetryIndividually, databaseProblem } from "../store/database-problem.ts";

/** Receives facts about commits. */
export interface CommitObserver {
  /** A batch committed: how long it took, and its size. */
  batch(facts: { seconds: number; frames: number; rows: number }): void;
}

/** Commits frames; see the invariants above. */
export interface Committer {
  /** Resolves once the frame is committed; rejects with `database_unavailable` or the database's error, with nothing stored. */
  commit(frame: FrameToCommit, bytes: number): Promise<CommittedFrame>;
  /** Returns whether the last batch committed, or none ran yet, and no frame has waited longer than `stalledAfterMs`. */
  health(): { healthy: boolean; detail: string };
  /** Rejects new frames, waits for those pending, and closes the connections. */
  close(): Promise<void>;
}

/** What a committer needs. */
export interface CommitterOptions {
  /** Opens a connection for COPY. It must reject within seconds when the server does not answer. */
  connect(): Promise<Client>;
  clock: Clock;
  observe: CommitObserver;
  /** Batches that run at once: two, so that one fills while the other is flushed to disk. */
  connections?: number;
  /** A batch that takes longer loses its connection (D3: a server that is stopped, but not down). */
  batchTimeoutMs?: number;
  batchBytesMax?: number;
}

interface Pending {
  frame: FrameToCommit;
  bytes: number;
  since: number;
  resolve(outcome: CommittedFrame): void;
  reject(cause: unknown): void;
}

/** A batch that runs, with the expected cursors of its queues if core has one for each. */
interface Batch {
  frames: readonly Pending[];
  keys: ReadonlySet<string>;
  expected: ReadonlyMap<string, bigint> | undefined;
  /** Resolves when the earlier batches of the same queues have ended; undefined when there are none. */
  turn: Promise<unknown> | undefined;
}

/** A queue that is in running batches: since when, in how many, and when the last of them ends. */
interface Busy {
  since: number;
  batches: number;
  ended: Promise<void>;
}

const expectedMax = 20_000;
const stalledAfterMs = 10_000;
/** From here on a second batch is worth its transaction. */
const parallelBytesMin = 1536 * 1024;
/** From here on a batch counts as slow. */
const slowAfterMs = 50;

/** Makes a committer; it connects with the first frame. */
export const createCommitter = ({
  connect,
  clock,
  observe,
  connections = 2,
  batchTimeoutMs = 30_000,
  batchBytesMax = 16 * 1024 * 1024,
}: CommitterOptions): Committer => {
  const waiting = new Map<string, Pending[]>();
  let waitingBytes = 0;
  const busy = new Map<string, Busy>();
  /** The cursor of each queue once its running batches have committed. */
  const expected = new LRUCache<string, bigint>({ max: expectedMax });
  const idle: Client[] = [];
  let running = 0;
  let slow = false;
  let closing = false;
  let failure: unknown;
  let drained: (() => void) | undefined;

  /**
   * Takes the frames of queues, oldest first, while they fit; at least one frame. A queue that is in a running batch joins only a batch
   * in which every queue has an expected cursor.
   */
  const takeFrames = (): Pending[] => {
    const frames: Pending[] = [];
    let bytes = 0;
    let someBusy = false;
    let someUnknown = false;
    for (const [key, queued] of waiting) {
      const isBusy = busy.has(key);
      const isUnknown = expected.get(key) === undefined;
      if (isBusy ? isUnknown || someUnknown : isUnknown && someBusy) continue;
      let taken = 0;
      while (taken < queued.length) {
        const next = queued[taken];
        if (next === undefined || (frames.length > 0 && bytes + next.bytes > batchBytesMax)) break;
        bytes += next.bytes;
        waitingBytes -= next.bytes;
        frames.push(next);
        taken++;
      }
      if (taken === 0) break;
      someBusy ||= isBusy;
      someUnknown ||= isUnknown;
      if (taken === queued.length) waiting.delete(key);
      else waiting.set(key, queued.slice(taken));
      if (taken < queued.length) break;
    }
    return frames;
  };

  const begin = (frames: readonly Pending[]): Batch => {
    const keys = new Set(frames.map(({ frame }) => queueKey(frame.hostId, frame.queueId)));
    const cursors = new Map<string, bigint>();
    for (const key of keys) {
      const cursor = expected.get(key);
      if (cursor !== undefined) cursors.set(key, cursor);
    }
    const earlier = [...keys].flatMap((key) => busy.get(key)?.ended ?? []);
    const turn = earlier.length > 0 ? Promise.all(earlier) : undefined;
    if (cursors.size < keys.size) return { frames, keys, expected: undefined, turn };
    for (const { frame } of frames) {
      const key = queueKey(frame.hostId, frame.queueId);
      const cursor = expected.get(key) ?? 0n;
      if (frame.previousSequence <= cursor && frame.lastSequence > cursor) expected.set(key, frame.lastSequence);
    }
    return { frames, keys, expected: cursors, turn };
  };

  const pump = (): void => {
    while (running < connections && (running === 0 || slow || waitingBytes >= parallelBytesMin)) {
      const frames = takeFrames();
      if (frames.length === 0) break;
      running++;
      const batch = begin(frames);
      const timer = setTimeout(() => {
        slow = true;
        pump();
      }, slowAfterMs);
      const ended = run(batch);
      for (const key of batch.keys) {
        const { since = frames[0]?.since ?? 0, batches = 0 } = busy.get(key) ?? {};
        busy.set(key, { since, batches: batches + 1, ended });
      }
      void ended.finally(() => {
        clearTimeout(timer);
        slow = false;
        running--;
        for (const key of batch.keys) leave(key);
        pump();
      });
    }
    if (running === 0 && waiting.size === 0) drained?.();
  };

  const leave = (key: string): void => {
    const entry = busy.get(key);
    if (entry === undefined || entry.batches === 1) busy.delete(key);
    else busy.set(key, { ...entry, since: clock.monotonic(), batches: entry.batches - 1 });
  };

  const run = async (batch: Batch): Promise<void> => {
    const { frames, keys } = batch;
    try {
      const outcomes = await attempt(batch);
      failure = undefined;
      for (const [index, { resolve, reject }] of frames.entries()) {
        const outcome = outcomes[index];
        if (outcome) resolve(outcome);
        else reject(new Error("a frame without an outcome"));
      }
    } catch (cause) {
      for (const key of keys) expected.delete(key);
      if (frames.length > 1 && canRetryIndividually(cause)) return void (await retryIndividually(batch));
      failure = cause;
      const reason = databaseProblem(cause) ?? cause;
      for (const { reject } of frames) reject(reason);
    }
  };

  /** Runs each frame as a batch: only one that cannot be stored, and those after it in its queue, then fail. */
  const retryIndividually = async ({ frames, turn }: Batch): Promise<void> => {
    for (const pending of frames) {
      const keys = new Set([queueKey(pending.frame.hostId, pending.frame.queueId)]);
      await run({ frames: [pending], keys, expected: undefined, turn });
    }
  };

  const attempt = async ({ frames, keys, expected: cursors, turn }: Batch): Promise<CommittedFrame[]> => {
    const client = idle.pop() ?? (await connect());
    const startedAt = clock.monotonic();
    // The one way to end a query that the server does not answer: its promise rejects when the socket closes.
    const ended = new AbortController();
    clock.sleep(batchTimeoutMs, ended.signal).then(
      () => destroyClient(client),
      () => undefined,
    );
    const batch = frames.map(({ frame }) => frame);
    try {
      let outcomes = cursors && (await commitFramesAhead(client, batch, { expected: cursors, turn, now: clock.now }));
      if (outcomes === undefined) {
        for (const key of keys) expected.delete(key);
        await turn;
        outcomes = await commitFrames(client, batch, clock.now);
        for (const [index, frame] of batch.entries()) {
          const cursor = outcomes[index]?.cursor;
          if (cursor !== undefined) expected.set(queueKey(frame.hostId, frame.queueId), cursor);
        }
      }
      const rows = outcomes.reduce((sum, { storedRows }) => sum + storedRows, 0);
      observe.batch({ seconds: (clock.monotonic() - startedAt) / 1000, frames: frames.length, rows });
      idle.push(client);
      return outcomes;
    } catch (cause) {
      // A connection is kept only after success, as a failure leaves it in an unknown state.
      destroyClient(client);
      throw cause;
    } finally {
      ended.abort();
    }
  };

  return {
    commit: (frame, bytes) =>
      new Promise((resolve, reject) => {
        if (closing) return reject(new Error("the committer is closed"));
        const key = queueKey(frame.hostId, frame.queueId);
        const pending = { frame, bytes, since: clock.monotonic(), resolve, reject };
        waitingBytes += bytes;
        const queue = waiting.get(key);
        if (queue) queue.push(pending);
        else waiting.set(key, [pending]);
        pump();
      }),
    health() {
      if (failure !== undefined) return { healthy: false, detail: "the last batch did not commit" };
      let oldest = clock.monotonic();
      for (const { since } of busy.values()) oldest = Math.min(oldest, since);
      for (const frames of waiting.values()) oldest = Math.min(oldest, frames[0]?.since ?? oldest);
      const waited = clock.monotonic() - oldest;
      return waited > stalledAfterMs
        ? { healthy: false, detail: `a frame has been waiting for ${Math.round(waited / 1000)} s` }
        : { healthy: true, detail: "committing" };
    },
    async close() {
      closing = true;
      if (running > 0 || waiting.size > 0) await new Promise<void>((resolve) => (drained = resolve));
      await Promise.all(idle.splice(0).map((client) => client.end().catch(() => undefined)));
    },
  };
};
