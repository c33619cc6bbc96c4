import type { Database, Executor } from "../store/database/database.ts";
import { readServerState } from "../store/database/identity.ts";
import { limitLockWaits, planByIndex } from "../store/database/statements.ts";
import { openCommitClient } from "../store/ingest/commit-batch.ts";
import { addGap } from "../store/ingest/gaps.ts";
import {
  endQueues,
  findCursor,
  lockCursors,
  lockLeftCursors,
  noteForks,
  noteQueues,
  trimCursors,
  updateCursors,
} from "../store/ingest/queues.ts";
import { findSinkChange } from "../store/ingest/sinks.ts";
import { type CommitObserver, type CommitterOptions, createCommitter } from "./committer.ts";
import { createQueueOpener, type QueueOpenerNeeds, type QueueRegister } from "./open-queue.ts";
import { createQueueEventRecorder, type QueueEventNeeds } from "./queue-events.ts";
import type { Sink } from "./sink.ts";

/** The dependencies of the sink. */
export interface PostgresSinkNeeds
  extends QueueEventNeeds,
    Pick<QueueOpenerNeeds<Executor>, "pause" | "recover"> {
  db: Database;
  /** Returns the URL of the server to commit to, for the committer's own connections. */
  databaseUrl(): Promise<string>;
  codec: CommitterOptions["codec"];
  hasStoredDigests?: CommitterOptions["hasStoredDigests"];
  objects?: CommitterOptions["objects"];
  observe: QueueOpenerNeeds<Executor>["observe"] & CommitObserver;
}

/** Creates the sink that stores frames in PostgreSQL; it connects with the first frame. */
export const createPostgresSink = (needs: PostgresSinkNeeds): Sink => ({
  ...createQueueOpener({ ...needs, register: createPostgresRegister(needs) }),
  ...createCommitter({
    connect: async () => openCommitClient(await needs.databaseUrl()),
    clock: needs.clock,
    codec: needs.codec,
    hasStoredDigests: needs.hasStoredDigests,
    objects: needs.objects,
    observe: needs.observe,
    log: needs.log,
  }),
});

/** Creates the register of queues that PostgreSQL holds. */
export const createPostgresRegister = (
  needs: QueueEventNeeds & { db: Database },
): QueueRegister<Executor> => ({
  transaction: (work, { isShared } = { isShared: false }) =>
    needs.db.transaction(async (tx) => {
      if (!isShared) return work(tx);
      const [, , result] = await Promise.all([planByIndex(tx), limitLockWaits(tx), work(tx)]);
      return result;
    }),
  lock: lockCursors,
  lockLeft: lockLeftCursors,
  update: updateCursors,
  note: noteQueues,
  noteForks,
  endLeft: async (tx, hostId, queueIds, endedAt) => {
    await endQueues(tx, hostId, queueIds, { endedAt, ending: "succeeded" }, endedAt);
  },
  trim: trimCursors,
  addGap,
  findSinkChange,
  readServerState,
  record: createQueueEventRecorder(needs),
  findCursor: (queue) => findCursor(needs.db, queue),
});
