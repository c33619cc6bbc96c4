import type { Committer } from "./committer.ts";
import type { QueueOpener } from "./open-queue.ts";

/**
 * Where ingest stores frames, and where the cursors and sessions of their queues are. Guarantees of every sink:
 * - A frame resolves only after its envelopes are stored as durably as the sink promises; one that rejects may be stored in part.
 * - The frames of a queue are stored in the order of their calls, each envelope once, however often it is sent and through which core.
 * - After a session has opened a queue, no frame of an earlier session stores anything.
 */
export interface Sink extends QueueOpener, Committer {}
