import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Queue } from "../queue/queue.ts";

/** Something that puts records into the queue for as long as it runs. */
export interface Source {
  /** What `NewRecord.source` says; unique in a collector. */
  readonly name: string;
  /** Resolves once the source takes input; rejects if it cannot (an address in use, say). */
  start(): Promise<void>;
  /** Resolves once the source appends nothing any more. What it accepted is stored. */
  stop(): Promise<void>;
  /** What it counted since its start, for `status`. */
  counters?(): Readonly<Record<string, number>>;
}

/** What every source needs. */
export interface SourceDependencies {
  append: Queue["append"];
  clock: Clock;
  log: Log;
}
