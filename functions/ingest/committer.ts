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
 *   disk can finish them. The late batch may still commit: collectors send its frames again, and the cursor rejects those that are stored.
 * - Frames that go back to `waiting` go before every later frame of their queue; batches with later ones go back first.
 * - The committer has no bound of its own: the caller's byte budget bounds what is pending.
 *
 * With an object store, which takes longer for an object than the database for its rows, batches are larger: one begins when enough bytes
 * wait, or `objectPace.intervalMs` after the last one began. More of them run at once.
 */

import { LRUCache } from "lru-cache";
import type { Client } from "pg";
import { type Clock, callAfter } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { Problem } from "../problems.ts";
import { commitConnectionsMax } from "../store/database/call-limits.ts";
import { canRetryIndividually, databaseProblem, isLockTimeout } from "../store/database/problem.ts";
import {
  type CommitNeeds,
  commitBatch,
  commitBatchAhead,
  commitDeadlineMs,
  createTouchedHosts,
} from "../store/ingest/commit-batch.ts";
import { type FrameOutcome, type FrameToCommit, queueKey } from "../store/ingest/decide-batch.ts";
import { rawBytesOf } from "../store/ingest/envelope-run.ts";
import {
  type Batch,
  type BatchPace,
  beginBatch,
  type ExpectedCursors,
  type FrameGroup,
  forgetCursors,
  groupFrames,
} from "./batch.ts";
import { type CopyConnections, createCopyConnections } from "./copy-connections.ts";
import { createWaitingFrames, type Pending, type WaitingFrames } from "./waiting-frames.ts";

/** Receives facts about commits. */
export interface CommitObserver {
  /** A batch committed: how long it took, and its size. */
  batch(facts: { seconds: number; frames: number; rows: number }): void;
}

/** Commits frames; see the invariants above. */
export type Committer = ReturnType<typeof createCommitter>;

/** The dependencies of a committer. */
export interface CommitterOptions {
  /** Opens a connection for COPY. It must reject within seconds when the server does not answer. */
  connect(): Promise<Client>;
  clock: Clock;
  codec: CommitNeeds["codec"];
  hasStoredDigests?: CommitNeeds["hasStoredDigests"];
  objects?: CommitNeeds["objects"];
  observe: CommitObserver;
  log?: { warn(fields: object, message: string): void };
  connections?: Pace["connections"];
  batchTimeoutMs?: Pace["timeoutMs"];
  batchBytesMax?: Pace["bytesMax"];
}

/**
 * The state of a committer:
 * - "committing": the last batch committed, or none has run. It becomes "failing" when the server fails a batch.
 * - "failing": it goes on with batches, and `probe` opens connections until one succeeds: without it a core that gets no frames, because it is
 *   not ready, would stay so. It becomes "committing" with the first batch that commits or connection that opens.
 * - "closing", from either: it accepts no frames, and calls `drained` once none is pending.
 */
type CommitterState =
  | { name: "committing" }
  | { name: "failing"; probe: AbortController }
  | { name: "closing"; drained(): void };

/** When batches begin and when they are late. */
interface Pace {
  /** A smaller batch begins only so long after the last one began; 0: when no other runs. */
  intervalMs: number;
  /** From here on another batch is worth its transaction, or its object. */
  parallelBytesMin: number;
  bytesMax: number;
  connections: number;
  /** From here on a batch counts as slow. */
  slowAfterMs: number;
  /** From here on a batch counts as stuck: no other waits for it. */
  stuckAfterMs: number;
  /** A batch that takes longer loses its connection (D3: a server that is stopped, but not down). */
  timeoutMs: number;
}

/** Two batches run at once, so that one fills while the other is flushed to disk. */
const rowPace: Pace = {
  intervalMs: 0,
  parallelBytesMin: 1536 * 1024,
  bytesMax: 16 * 1024 * 1024,
  connections: 2,
  slowAfterMs: 50,
  stuckAfterMs: 1_000,
  timeoutMs: commitDeadlineMs,
};

/** A store may need seconds for an object, and repeats a request that failed. */
const objectPace: Pace = {
  intervalMs: 200,
  parallelBytesMin: 8 * 1024 * 1024,
  bytesMax: 16 * 1024 * 1024,
  connections: 4,
  slowAfterMs: 1_000,
  stuckAfterMs: 5_000,
  timeoutMs: 10_000,
};

const expectedMax = 20_000;
const stalledAfterMs = 10_000;
/** A batch of at most this size is not too large, however slow. */
const batchBytesMin = 256 * 1024;

/** Creates a committer; it connects with the first frame. */
export const createCommitter = (options: CommitterOptions) => {
  const { connect, clock } = options;
  const pace = paceOf(options);
  const weigh = weightOf(options);
  const { timeoutMs, bytesMax } = pace;
  const check = options.objects && (() => writeProbe(options));
  const pool = createCopyConnections({ connect, clock, timeoutMs, check });
  const limit = createBatchLimit({ bytesMax, timeoutMs });
  /** The batches that run, the oldest first. */
  const batches = new Set<Batch>();
  /** The cursor of each queue once its running batches have committed. */
  // Grows as it fills: with `max` it would take the memory of all entries at once.
  const expected = new LRUCache<string, bigint>({ maxSize: expectedMax, sizeCalculation: () => 1 });
  const waiting = createWaitingFrames({
    clock,
    batchBytesMax: limit.bytes,
    isBusy: (key) => batches.values().some(({ keys }) => keys.has(key)),
    isUnknown: (key) => expected.get(key) === undefined,
  });
  const attempt = createAttempt(options, pool, limit, expected);
  let state: CommitterState = { name: "committing" };
  const interval = createInterval(clock, pace, () => pump());

  const putBack = ({ frames, keys }: FrameGroup) => {
    forgetCursors(expected, keys);
    waiting.putBack(frames);
  };
  /** Puts the frames of all batches that are behind an earlier one back, the newest batch first. */
  const yieldBehind = () => {
    for (const batch of [...batches].reverse()) {
      if (batch.state.name !== "behind") continue;
      putBack(batch);
      batch.state.yield();
    }
  };

  const pump = () => {
    while (mayBegin(batches, pace, waiting, interval.isOver() || state.name === "closing")) {
      const frames = waiting.removeBatch();
      if (frames.length === 0) break;
      interval.begin();
      begin(beginBatch(frames, expected, batches, clock));
    }
    if (state.name === "closing" && batches.size === 0 && waiting.isEmpty()) state.drained();
  };
  const begin = (batch: Batch) => {
    batches.add(batch);
    const becomes = (next: BatchPace, afterMs: number) =>
      callAfter(clock, afterMs, () => {
        // After a turn of more than a second, Node may run the timer of the second first.
        if (batch.pace !== "stuck") batch.pace = next;
        if (next === "stuck") {
          waiting.hold(batch.keys);
          yieldBehind();
        }
        pump();
      });
    const timers = [becomes("slow", pace.slowAfterMs), becomes("stuck", pace.stuckAfterMs)];
    batch.ended = run(batch, batch);
    void batch.ended.finally(() => {
      for (const cancel of timers) cancel();
      batches.delete(batch);
      if (batch.pace === "stuck") waiting.release(batch.keys);
      pump();
    });
  };

  /** Commits a group of a batch's frames and settles them; a batch that has yielded settles none. */
  const run = async (batch: Batch, group: FrameGroup) => {
    const { frames, keys } = group;
    try {
      const outcomes = await attempt(batch, group);
      recover();
      settle(frames, outcomes);
      waiting.rejoin(keys);
    } catch (cause) {
      if (batch.state.name === "yielded") return;
      forgetCursors(expected, keys);
      limit.failed(group.bytes, cause);
      await handleFailure(batch, group, cause);
    }
  };

  const handleFailure = async (batch: Batch, group: FrameGroup, cause: unknown) => {
    const { frames, keys } = group;
    // A lock says nothing about the server.
    const isLocked = isLockTimeout(cause);
    if (isLocked) waiting.isolate(keys);
    if (isLocked && keys.size > 1) {
      yieldBehind();
      return putBack(group);
    }
    if (frames.length > 1 && canRetryIndividually(cause)) return retryIndividually(batch, frames);
    if (!isLocked) fail(cause);
    const reason = databaseProblem(cause) ?? cause;
    for (const { reject } of frames) reject(reason);
  };

  /** Runs each frame alone: only one that cannot be stored, and those after it in its queue, then fail. */
  const retryIndividually = async (batch: Batch, frames: readonly Pending[]) => {
    for (const pending of frames) {
      if (batch.state.name === "yielded") return;
      await run(batch, groupFrames([pending]));
    }
  };

  const recover = () => {
    if (state.name !== "failing") return;
    state.probe.abort();
    state = { name: "committing" };
  };
  const fail = (err: unknown) => {
    if (state.name !== "committing") return;
    options.log?.warn({ err }, "a batch of telemetry did not commit; its hosts send it again");
    const probe = new AbortController();
    state = { name: "failing", probe };
    void pool.untilAvailable(probe.signal).then((isAvailable) => isAvailable && recover());
  };
  /** Resolves once no frame is pending, or when `graceMs` have passed and those that are pending have failed. */
  const drain = async (graceMs: number) => {
    const drained = Promise.withResolvers<void>();
    if (state.name === "failing") state.probe.abort();
    state = { name: "closing", drained: drained.resolve };
    const cancel = callAfter(clock, graceMs, () => {
      waiting.rejectAll(new Problem("shutting_down"));
      pool.destroyActive();
    });
    pump();
    await drained.promise;
    cancel();
  };

  return {
    /** Resolves once the frame is committed; rejects with `database_unavailable` or the database's error, with nothing stored. */
    commit: (frame: FrameToCommit, bytes: number): Promise<FrameOutcome> =>
      new Promise((resolve, reject) => {
        if (state.name === "closing") return reject(new Error("the committer is closed"));
        waiting.add({
          frame,
          bytes: weigh(frame, bytes),
          since: clock.monotonic(),
          resolve,
          reject,
        });
        pump();
      }),
    /** Reports whether the last batch committed, or none ran yet, and no frame has waited longer than `stalledAfterMs`. */
    health(): { healthy: boolean; detail: string } {
      if (state.name === "failing")
        return { healthy: false, detail: "The last batch did not commit." };
      let oldest = waiting.oldest() ?? clock.monotonic();
      for (const batch of batches)
        if (batch.state.name === "first") oldest = Math.min(oldest, batch.state.since);
      const waited = clock.monotonic() - oldest;
      return waited > stalledAfterMs
        ? { healthy: false, detail: `A frame has been waiting for ${Math.round(waited / 1000)} s.` }
        : { healthy: true, detail: "Telemetry is committed." };
    },
    /** Rejects new frames, waits `graceMs` (3 s) for those pending, and closes the connections. */
    async close(graceMs = 3_000) {
      await drain(graceMs);
      await pool.close();
    },
  };
};

/** Writes an object without blocks, which is deleted as every object that nothing names. */
const writeProbe = async ({ objects, clock }: CommitterOptions): Promise<unknown> =>
  objects?.write({ queues: [], blocks: [], isSettled: true, now: clock.now() });

/** Returns the bytes of an object that a frame becomes, or those that it was before compression, by which rows are paced. */
const weightOf =
  ({ objects }: Pick<CommitterOptions, "objects">) =>
  ({ run }: FrameToCommit, bytes: number): number =>
    objects ? bytes : Math.max(bytes, rawBytesOf(run));

const paceOf = ({
  objects,
  connections,
  batchTimeoutMs,
  batchBytesMax,
}: CommitterOptions): Pace => {
  const pace = objects ? objectPace : rowPace;
  return {
    ...pace,
    connections: connections ?? pace.connections,
    timeoutMs: batchTimeoutMs ?? pace.timeoutMs,
    bytesMax: batchBytesMax ?? pace.bytesMax,
  };
};

/** Creates the interval between batches, which each of them begins anew; it is over before the first. */
const createInterval = (
  clock: Clock,
  { intervalMs }: Pick<Pace, "intervalMs">,
  onOver: () => void,
) => {
  let isOver = true;
  let cancel = () => {};
  return {
    isOver: () => isOver,
    begin() {
      cancel();
      if (intervalMs === 0) return;
      isOver = false;
      cancel = callAfter(clock, intervalMs, () => {
        isOver = true;
        onOver();
      });
    },
  };
};

/** Reports whether another batch may begin: see the invariants. */
const mayBegin = (
  batches: ReadonlySet<Batch>,
  { intervalMs, connections, parallelBytesMin }: Pace,
  waiting: Pick<WaitingFrames, "bytes">,
  isIntervalOver: boolean,
) => {
  let moving = 0;
  let isSlow = false;
  for (const { pace } of batches) {
    if (pace !== "stuck") moving++;
    if (pace === "slow") isSlow = true;
  }
  if (moving >= connections || batches.size >= commitConnectionsMax) return false;
  if (waiting.bytes() >= parallelBytesMin) return true;
  return isIntervalOver && (intervalMs > 0 || moving === 0 || isSlow);
};

const settle = (frames: FrameGroup["frames"], outcomes: readonly FrameOutcome[]) => {
  for (const [index, { resolve, reject }] of frames.entries()) {
    const outcome = outcomes[index];
    if (outcome) resolve(outcome);
    else reject(new Error("a frame without an outcome"));
  }
};

/** Creates what commits a group of a batch's frames in one transaction, and then knows the cursors of its queues. */
const createAttempt = (
  { clock, codec, hasStoredDigests, objects, observe }: CommitterOptions,
  pool: Pick<CopyConnections, "run">,
  limit: ReturnType<typeof createBatchLimit>,
  expected: ExpectedCursors,
) => {
  const touchedBy = createTouchedHosts();
  const needs: CommitNeeds = { codec, hasStoredDigests, objects, now: clock.now, touchedBy };
  return (
    { turn }: Batch,
    { frames, keys, bytes, expected: cursors }: FrameGroup,
  ): Promise<FrameOutcome[]> =>
    pool.run(async (client, signal) => {
      const commits = { ...needs, signal };
      const startedAt = clock.monotonic();
      const some = frames.map(({ frame }) => frame);
      let outcomes =
        cursors && (await commitBatchAhead(client, some, { ...commits, expected: cursors, turn }));
      if (outcomes === undefined) {
        forgetCursors(expected, keys);
        await turn;
        outcomes = await commitBatch(client, some, commits);
        for (const [index, frame] of some.entries()) {
          const cursor = outcomes[index]?.cursor;
          if (cursor !== undefined) expected.set(queueKey(frame), cursor);
        }
      }
      const rows = outcomes.reduce((sum, { storedRows }) => sum + storedRows, 0);
      const ms = clock.monotonic() - startedAt;
      limit.committed(bytes, ms);
      observe.batch({ seconds: ms / 1000, frames: frames.length, rows });
      return outcomes;
    });
};

/** Limits the bytes of a batch to what the server can finish in time. */
const createBatchLimit = ({ bytesMax, timeoutMs }: { bytesMax: number; timeoutMs: number }) => {
  let limit = bytesMax;
  return {
    bytes: () => limit,
    failed(bytes: number, cause: unknown): void {
      if (bytes > batchBytesMin && errorCode(cause) === "DEADLINE_EXCEEDED")
        limit = Math.max(batchBytesMin, bytes / 2);
    },
    committed(bytes: number, ms: number): void {
      if (limit < bytesMax && ms < timeoutMs / 2 && bytes > limit / 2)
        limit = Math.min(bytesMax, limit * 2);
    },
  };
};
