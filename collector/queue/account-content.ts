import type { SourceRefusal } from "#proto/completeness/account.ts";
import type { RecordCount, RuleCount } from "./record.ts";

/** Records that a source did not accept. */
export type RefusedRecords = Pick<RecordCount, "kind" | "source" | "records">;

/** Records of one kind and source that were not accepted, for one reason. */
export interface RefusedCount extends RefusedRecords {
  readonly reason: SourceRefusal;
  records: number;
}

/** The work of a host in a period. Sequences are those of the queue. */
export interface AccountContent {
  fromMs: number;
  toMs: number;
  firstSequence: number;
  /** `firstSequence` - 1 if nothing was accepted. */
  lastSequence: number;
  stopped: boolean;
  atLeast: boolean;
  accepted: RecordCount[];
  refused: RefusedCount[];
  /** An earlier version saved accounts without these two. */
  filtered?: RuleCount[] | undefined;
  redacted?: RuleCount[] | undefined;
  expired: number;
  damaged: number;
  fileGapBytes: number;
  /** Gaps of any size, and those of which nobody knows the bytes. An earlier version saved accounts without them. */
  fileGaps?: number | undefined;
  fileGapsUnknown?: number | undefined;
  waitedMs: number;
  /** Sequences through this one were acknowledged under an earlier queue id; 0 for none. */
  ackedBeforeThrough: number;
  /** It is the last one of its queue. */
  ended?: boolean | undefined;
}
