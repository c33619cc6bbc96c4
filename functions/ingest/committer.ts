/**
 * Self-clocking group commit: as soon as a connection is free, everything that is pending commits as one batch. Under little load a
 * frame waits for nothing; under much, batches grow until the disk keeps up. A second batch runs beside the first only when it is
 * worth its transaction, or the first is slow: many small senders are served best by few batches.
 *
 * Invariants:
 * - A frame is resolved only after the batch it was in has committed; a batch that failed rejects all its frames.
 * - Frames of one queue commit in the order they were given: a queue is in at most one batch at a time.
 * - Nothing here is bounded by itself: the caller's byte budget bounds what is pending.
 */
import type { Client } from "pg";
import type { Clock } from "../kit/clock.ts";
import { type CommittedFrame, commitFrames, type FrameToCommit, queueKey } from "../store/commit-frames.ts";
import { databaseProblem } from "../store/database-problem.ts";

/** What the committer tells of its work. */
export interface CommitObserver {
  /** A batch committed: how long it took, how much it held. */
  batch(facts: { seconds: number; frames: number; rows: number }): void;
}

/** Commits frames; see the invariants above. */
export interface Committer {
  /** Resolves once the frame is committed; rejects with `database_unavailable` or the database's error, and nothing is stored. */
  commit(frame: FrameToCommit, bytes: number): Promise<CommittedFrame>;
  /** The last batch succeeded, or none ran yet; and no frame waits longer than `stalledAfterMs`. */
  health(): { healthy: boolean; detail: string };
  /** Waits for what is pending, then closes the connections. New frames are rejected. */
  close(): Promise<void>;
}

/** What a committer needs. */
export interface CommitterOptions {
  /** Opens a connection for COPY. It must reject within seconds when the server does not answer. */
  connect(): Promise<Client>;
  clock: Clock;
  observe: CommitObserver;
  /** Batches under way at once: two, so that one fills while the other is flushed to disk. */
  connections?: number;
  /** A batch that takes longer loses its connection (D3: a server that is stopped, not gone). */
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

const stalledAfterMs = 10_000;
const besideBytesMin = 256 * 1024;
const besideAfterMs = 50;

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
  const busy = new Map<string, number>();
  const idle: Client[] = [];
  let running = 0;
  let slow = false;
  let closing = false;
  let failure: unknown;
  let drained: (() => void) | undefined;

  /** Whole queues, oldest first, while they fit; at least one frame. */
  const takeBatch = (): Pending[] => {
    const batch: Pending[] = [];
    let bytes = 0;
    for (const [key, frames] of waiting) {
      if (busy.has(key)) continue;
      let taken = 0;
      while (taken < frames.length) {
        const next = frames[taken];
        if (next === undefined || (batch.length > 0 && bytes + next.bytes > batchBytesMax)) break;
        bytes += next.bytes;
        waitingBytes -= next.bytes;
        batch.push(next);
        taken++;
      }
      if (taken === 0) break;
      busy.set(key, batch.at(-1)?.since ?? 0);
      if (taken === frames.length) waiting.delete(key);
      else waiting.set(key, frames.slice(taken));
      if (taken < frames.length) break;
    }
    return batch;
  };

  const pump = (): void => {
    while (running < connections && (running === 0 || slow || waitingBytes >= besideBytesMin)) {
      const batch = takeBatch();
      if (batch.length === 0) break;
      running++;
      const impatience = setTimeout(() => {
        slow = true;
        pump();
      }, besideAfterMs);
      void run(batch).finally(() => {
        clearTimeout(impatience);
        slow = false;
        running--;
        for (const { frame } of batch) busy.delete(queueKey(frame.hostId, frame.queueId));
        pump();
      });
    }
    if (running === 0 && waiting.size === 0) drained?.();
  };

  const run = async (batch: readonly Pending[]): Promise<void> => {
    try {
      const outcomes = await attempt(batch);
      failure = undefined;
      for (const [index, { resolve, reject }] of batch.entries()) {
        const outcome = outcomes[index];
        if (outcome) resolve(outcome);
        else reject(new Error("a frame without an outcome"));
      }
    } catch (cause) {
      const problem = databaseProblem(cause);
      if (problem?.code !== "database_unavailable" && batch.length > 1) return void (await runAlone(batch));
      failure = cause;
      for (const { reject } of batch) reject(problem ?? cause);
    }
  };

  /** Something in the batch cannot be stored: only the frame that holds it, and those that follow it in its queue, may fail. */
  const runAlone = async (batch: readonly Pending[]): Promise<void> => {
    for (const pending of batch) await run([pending]);
  };

  const attempt = async (batch: readonly Pending[]): Promise<CommittedFrame[]> => {
    const client = idle.pop() ?? (await connect());
    const startedAt = clock.monotonic();
    // The one way to end a query whose server does not answer: its promise rejects when the socket closes.
    const timer = setTimeout(() => destroy(client), batchTimeoutMs);
    try {
      const outcomes = await commitFrames(
        client,
        batch.map(({ frame }) => frame),
        clock.now,
      );
      const rows = outcomes.reduce((sum, { storedRows }) => sum + storedRows, 0);
      observe.batch({ seconds: (clock.monotonic() - startedAt) / 1000, frames: batch.length, rows });
      idle.push(client);
      return outcomes;
    } catch (cause) {
      // A connection is kept only after success: what state a failure left it in is not worth knowing.
      destroy(client);
      throw cause;
    } finally {
      clearTimeout(timer);
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
      for (const since of busy.values()) oldest = Math.min(oldest, since);
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

const destroy = (client: Client): void => {
  // pg's own `end` waits for the server.
  (client as Client & { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
};
