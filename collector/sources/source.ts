import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Queue } from "../queue/queue.ts";

/** Appends records to the queue while it runs. */
export interface Source {
  /** The value of `NewRecord.source`. */
  readonly name: string;
  /** Resolves once the source accepts input; rejects if it cannot, as with an address in use. */
  start(): Promise<void>;
  /** Resolves once the source has stored what it accepted and appends nothing more. */
  stop(): Promise<void>;
  /** Counts since its start, for `status`. */
  counters?(): Readonly<Record<string, number>>;
}

/** The dependencies of every source. */
export interface SourceDependencies {
  append: Queue["append"];
  clock: Clock;
  log: Log;
}
