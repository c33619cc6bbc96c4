import type { Clock } from "#kit/clock.ts";
import type { Log } from "#kit/log.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import type { SourceConfig } from "#proto/collector-config/parse.ts";
import type { ReportedCondition } from "#proto/management/heartbeat.ts";
import type { Queue } from "../queue/queue.ts";

/** Which files a `file` source may read. */
export interface FileRules {
  /** The collector's own files and directories, which are never read. */
  readonly neverRead: readonly string[];
  /** The directories in which a file must be; undefined for any. */
  readonly roots?: readonly string[] | undefined;
}

type FileConfig = Extract<SourceConfig, { type: "file" }>;

/** The settings of a source: its config, and the rules of a file source. */
export type SourceSettings =
  | Exclude<SourceConfig, FileConfig>
  | (FileConfig & { readonly rules: FileRules });

/** A warning: a source leaves something out, or reads it in another way than the config may mean. */
export interface SourceWarning {
  /** Names the kind, such as `no_match`. */
  readonly code: string;
  /** A note asks nobody to do anything: `status` has it, a heartbeat does not. */
  readonly level: "warning" | "note";
  /** A pattern of the config, or the first of the files that it is about. */
  readonly path: string;
  readonly count: number;
  /** The fault, and how to mend it. */
  readonly message: string;
}

/** Returns a warning as one line. */
export const describeWarning = ({ path, count, message }: SourceWarning): string =>
  `${path}${count > 1 ? ` and ${count - 1} more` : ""}: ${message}`;

/** Appends records to the queue while it runs. */
export interface Source {
  /** The value of `NewRecord.source`. */
  readonly name: string;
  /**
   * Resolves once the source accepts input; rejects if it cannot, as with an address in use. With `retries` it resolves although an address
   * cannot be used, reports that as its condition, and tries again until it can.
   */
  start(options?: { retries: boolean }): Promise<void>;
  /** Resolves once the source has stored what it accepted and appends nothing more. */
  stop(): Promise<void>;
  /** Returns why it does not do its work; undefined if it does. */
  condition?(): ReportedCondition | undefined;
  /** Counts since its start, for `status`. */
  counters?(): Readonly<Record<string, number>>;
  /** Returns what it warns of now. */
  warnings?(): readonly SourceWarning[];
}

/** The dependencies of every source. */
export interface SourceDependencies {
  append: Queue["append"];
  /** Counts records that the source rejects before they reach the queue. */
  refused: Queue["accounts"]["refused"];
  clock: Clock;
  log: Log;
  /** Records what is received; nothing is recorded without it. */
  tracer?: Tracer;
}

/** The dependencies of a source that stores its positions with its records. */
export interface PositionedSourceDependencies extends SourceDependencies {
  checkpoints: Queue["checkpoints"];
}
