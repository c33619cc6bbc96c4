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
 * - A batch that the server does not finish delays its own queues only: it no longer counts against the connections, no other batch waits
 *   for it, and frames of its queues wait until it ends. A batch that waits for a lock of one queue is split into one for each queue.
 * - A batch that exceeds its deadline fails, and later ones are at most half as large until batches commit fast again, so that a slow
 *   disk can finish them. The late batch may still commit: collectors send its frames again, and the cursor rejects the copies.
 * - Frames that go back to `waiting` go before every later frame of their queue; batches with later ones go back first.
 * - The committer has no bound of its own: the caller's byte budget bounds what is pending.
 */

import { LRUCache } from "lru-cache";
import type { Client } from "pg";
import type { Clock } from "../../kit/clock.ts";
import { errorCode } from "../../kit/describe-error.ts";
import { Problem } from "../problems.ts";
import { canRetryIndividually, databaseProblem, isLockTimeout } from "../store/database/problem.ts";
import { type CommitNeeds, commitDeadlineMs, commitFrames, commitFramesAhead } from "../store/ingest/commit-frames.ts";
import { type CommittedFrame, type FrameToCommit, queueKey } from "../store/ingest/decide-frames.ts";
import { type Batch, beginBatch } from "./commit-batch.ts";
import { createCommitConnections } from "./commit-connections.ts";
import { createWaitingFrames } from "./waiting-frames.ts";

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
  /** Rejects new frames, waits `graceMs` (3 s) for those pending, and closes the connections. */
  close(graceMs?: number): Promise<void>;
}

/** The dependencies of a committer. */
export interface CommitterOptions {
  /** Opens a connection for COPY. It must reject within seconds when the server does not answer. */
  connect(): Promise<Client>;
  clock: Clock;
  codec: CommitNeeds["codec"];
  observe: CommitObserver;
  /** Batches that run at once: two, so that one fills while the other is flushed to disk. */
  connections?: number;
  /** A batch that takes longer loses its connection (D3: a server that is stopped, but not down). */
  batchTimeoutMs?: number;
  batchBytesMax?: number;
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
/** From here on a batch counts as stuck: no other waits for it. */
const stuckAfterMs = 1_000;
/** Bounds the connections, those of stuck batches included. */
const connectionsMax = 8;
/** A batch of at most this size is not too large, however slow. */
const batchBytesMin = 256 * 1024;

const bytesOf = (frames: Batch["frames"]): number => frames.reduce((sum, { bytes }) => sum + bytes, 0);

/** Makes a committer; it connects with the first frame. */
export const createCommitter = ({
  connect,
  clock,
  codec,
  observe,
  connections = 2,
  batchTimeoutMs = commitDeadlineMs,
  batchBytesMax = 16 * 1024 * 1024,
}: CommitterOptions): Committer => {
  const commits: CommitNeeds = { codec, now: clock.now };
  const busy = new Map<string, Busy>();
  /** The cursor of each queue once its running batches have committed. */
  const expected = new LRUCache<string, bigint>({ max: expectedMax });
  let bytesMax = batchBytesMax;
  const waiting = createWaitingFrames({
    clock,
    batchBytesMax: () => bytesMax,
    isBusy: (key) => busy.has(key),
    isUnknown: (key) => expected.get(key) === undefined,
  });
  const pool = createCommitConnections({ connect, clock, timeoutMs: batchTimeoutMs });
  const batches = new Set<Batch>();
  let running = 0;
  let stuckBatches = 0;
  let probing = false;
  let slow = false;
  let closing = false;
  let failure: unknown;
  let drained: (() => void) | undefined;

  const putBack = ({ frames, keys }: Pick<Batch, "frames" | "keys">): void => {
    for (const key of keys) expected.delete(key);
    waiting.putBack(frames);
  };
  /** Puts the frames of all batches that wait for an earlier one back, the newest batch first. */
  const yieldWaiting = (): void => {
    for (const batch of [...batches].reverse()) {
      if (!batch.state.isWaiting || batch.state.hasYielded) continue;
      putBack(batch);
      batch.yield();
    }
  };

  const pump = (): void => {
    while (
      running - stuckBatches < connections &&
      running < connectionsMax &&
      (running === stuckBatches || slow || waiting.bytes() >= parallelBytesMin)
    ) {
      const frames = waiting.take();
      if (frames.length === 0) break;
      running++;
      const batch = beginBatch(frames, { expected, endedOf: (key) => busy.get(key)?.ended });
      batches.add(batch);
      let isStuck = false;
      const timers = [
        setTimeout(() => {
          slow = true;
          pump();
        }, slowAfterMs),
        setTimeout(() => {
          isStuck = true;
          stuckBatches++;
          waiting.hold(batch.keys);
          yieldWaiting();
          pump();
        }, stuckAfterMs),
      ];
      const ended = run(batch);
      for (const key of batch.keys) {
        const { since = frames[0]?.since ?? 0, batches = 0 } = busy.get(key) ?? {};
        busy.set(key, { since, batches: batches + 1, ended });
      }
      void ended.finally(() => {
        for (const timer of timers) clearTimeout(timer);
        slow = false;
        running--;
        if (isStuck) stuckBatches--;
        batches.delete(batch);
        if (isStuck) waiting.release(batch.keys);
        for (const key of batch.keys) leave(key);
        pump();
      });
    }
    if (running === 0 && waiting.isEmpty()) drained?.();
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
      waiting.rejoin(keys);
    } catch (cause) {
      if (batch.state.hasYielded) return;
      for (const key of keys) expected.delete(key);
      const bytes = bytesOf(frames);
      if (bytes > batchBytesMin && errorCode(cause) === "DEADLINE_EXCEEDED")
        bytesMax = Math.max(batchBytesMin, bytes / 2);
      if (isLockTimeout(cause)) {
        waiting.isolate(keys);
        if (keys.size > 1) {
          yieldWaiting();
          return putBack(batch);
        }
      }
      if (frames.length > 1 && canRetryIndividually(cause)) return void (await retryIndividually(batch));
      // A lock says nothing about the server.
      if (!isLockTimeout(cause)) {
        failure = cause;
        void probe();
      }
      const reason = databaseProblem(cause) ?? cause;
      for (const { reject } of frames) reject(reason);
    }
  };

  /** Connects after a failure until that succeeds: without it a core that gets no frames, because it is not ready, would stay so. */
  const probe = async (): Promise<void> => {
    if (probing) return;
    probing = true;
    if (await pool.untilAvailable()) failure = undefined;
    probing = false;
  };

  /** Runs each frame as a batch: only one that cannot be stored, and those after it in its queue, then fail. */
  const retryIndividually = async (batch: Batch): Promise<void> => {
    for (const pending of batch.frames) {
      if (batch.state.hasYielded) return;
      const keys = new Set([queueKey(pending.frame.hostId, pending.frame.queueId)]);
      await run({ ...batch, frames: [pending], keys, expected: undefined });
    }
  };

  const attempt = ({ frames, keys, expected: cursors, turn }: Batch): Promise<CommittedFrame[]> =>
    pool.run(async (client) => {
      const startedAt = clock.monotonic();
      const batch = frames.map(({ frame }) => frame);
      let outcomes = cursors && (await commitFramesAhead(client, batch, { ...commits, expected: cursors, turn }));
      if (outcomes === undefined) {
        for (const key of keys) expected.delete(key);
        await turn;
        outcomes = await commitFrames(client, batch, commits);
        for (const [index, frame] of batch.entries()) {
          const cursor = outcomes[index]?.cursor;
          if (cursor !== undefined) expected.set(queueKey(frame.hostId, frame.queueId), cursor);
        }
      }
      const rows = outcomes.reduce((sum, { storedRows }) => sum + storedRows, 0);
      const ms = clock.monotonic() - startedAt;
      if (bytesMax < batchBytesMax && ms < batchTimeoutMs / 2 && bytesOf(frames) > bytesMax / 2)
        bytesMax = Math.min(batchBytesMax, bytesMax * 2);
      observe.batch({ seconds: ms / 1000, frames: frames.length, rows });
      return outcomes;
    });

  return {
    commit: (frame, bytes) =>
      new Promise((resolve, reject) => {
        if (closing) return reject(new Error("the committer is closed"));
        waiting.add({ frame, bytes, since: clock.monotonic(), resolve, reject });
        pump();
      }),
    health() {
      if (failure !== undefined) return { healthy: false, detail: "the last batch did not commit" };
      let oldest = waiting.oldest() ?? clock.monotonic();
      for (const { since } of busy.values()) oldest = Math.min(oldest, since);
      const waited = clock.monotonic() - oldest;
      return waited > stalledAfterMs
        ? { healthy: false, detail: `a frame has been waiting for ${Math.round(waited / 1000)} s` }
        : { healthy: true, detail: "committing" };
    },
    async close(graceMs = 3_000) {
      closing = true;
      if (running > 0 || !waiting.isEmpty()) {
        const ended = new Promise<void>((resolve) => (drained = resolve));
        const timer = new AbortController();
        const late = clock.sleep(graceMs, timer.signal).then(
          () => {
            waiting.rejectAll(new Problem("shutting_down"));
            pool.destroyActive();
          },
          () => undefined,
        );
        await ended;
        timer.abort();
        await late;
      }
      await pool.close();
    },
  };
};
