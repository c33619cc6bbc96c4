import { openCommitClient } from "../store/commit-frames.ts";
import { type CommitObserver, createCommitter } from "./committer.ts";
import { createQueueOpener, type QueueOpenerNeeds } from "./open-queue.ts";
import type { Sink } from "./sink.ts";

/** The dependencies of the sink. */
export interface PostgresSinkNeeds extends QueueOpenerNeeds {
  /** Returns the URL of the server to commit to, for the committer's own connections. */
  databaseUrl(): Promise<string>;
  observe: QueueOpenerNeeds["observe"] & CommitObserver;
}

/** Makes the sink that stores frames in PostgreSQL; it connects with the first frame. */
export const createPostgresSink = (needs: PostgresSinkNeeds): Sink => ({
  ...createQueueOpener(needs),
  ...createCommitter({
    connect: async () => openCommitClient(await needs.databaseUrl()),
    clock: needs.clock,
    observe: needs.observe,
  }),
});
