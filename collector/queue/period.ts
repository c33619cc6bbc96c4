/*
 * The time that the next account of a queue covers. Invariants:
 * - Periods follow each other without a gap by the host's clock, also across stops: what no collector ran in is an account of its own.
 * - A period lies within one UTC hour. It ends with the hour, with the collector, and when the clock or the machine stood still.
 */
import { hourMs } from "../../kit/clock.ts";
import type { SourceRefusal } from "../../proto/completeness/account.ts";
import type { AccountContent, RefusedCount, RefusedRecords } from "./account.ts";
import type { RecordCount } from "./record.ts";

/** Totals of the queue since it exists, of which an account has the difference. */
export interface LossTotals {
  damaged: number;
  fileGapBytes: number;
  /** Absent in periods that an earlier version saved. */
  fileGaps?: number;
  fileGapsUnknown?: number;
}

/** An open period, as it is saved with each transaction of the queue. */
export interface Period {
  /** In hex. */
  queueId: string;
  fromMs: number;
  /** When the collector last ran, by its clock. */
  seenMs: number;
  firstSequence: number;
  /** The queue's when it was saved. */
  nextSequence: number;
  accepted: RecordCount[];
  refused: RefusedCount[];
  expired: number;
  waitedMs: number;
  ackedBeforeThrough: number;
  /** When the period began. */
  totals: LossTotals;
  /** The collector has stopped, and the account of this period is written. */
  isClosed: boolean;
}

/** An observation of the queue. */
export interface Observation {
  queueId: string;
  wallMs: number;
  nextSequence: number;
  totals: LossTotals;
}

/** Begins a period. */
export const beginPeriod = ({ queueId, wallMs, nextSequence, totals }: Observation): Period => ({
  ...{ queueId, fromMs: wallMs, seenMs: wallMs, firstSequence: nextSequence, nextSequence, totals },
  ...{ accepted: [], refused: [], expired: 0, waitedMs: 0, ackedBeforeThrough: 0, isClosed: false },
});

/** Returns the account of a period that ends at `toMs`. */
export const closePeriod = (period: Period, toMs: number, { nextSequence, totals }: Observation): AccountContent => ({
  fromMs: period.fromMs,
  toMs: Math.max(period.fromMs, toMs),
  firstSequence: period.firstSequence,
  lastSequence: nextSequence - 1,
  stopped: false,
  atLeast: false,
  accepted: period.accepted,
  refused: period.refused,
  expired: period.expired,
  damaged: since(period.totals.damaged, totals.damaged),
  fileGapBytes: since(period.totals.fileGapBytes, totals.fileGapBytes),
  fileGaps: since(period.totals.fileGaps, totals.fileGaps),
  fileGapsUnknown: since(period.totals.fileGapsUnknown, totals.fileGapsUnknown),
  waitedMs: Math.round(period.waitedMs),
  ackedBeforeThrough: period.ackedBeforeThrough >= period.firstSequence ? period.ackedBeforeThrough : 0,
});

/** Returns the growth of a total; 0 where an earlier version did not save what it was. */
const since = (before: number | undefined, now = 0): number => Math.max(0, now - (before ?? now));

/** Returns the account of a time in which no collector ran. */
export const stoppedAccount = (fromMs: number, toMs: number, nextSequence: number): AccountContent => ({
  ...{ fromMs, toMs, firstSequence: nextSequence, lastSequence: nextSequence - 1, stopped: true, atLeast: false },
  ...{ accepted: [], refused: [], expired: 0, damaged: 0, fileGapBytes: 0, waitedMs: 0, ackedBeforeThrough: 0 },
});

/** A queue that is in use observes the time at least so often, give or take a busy machine. */
export const observeMs = 30_000;
/** After so long without an observation, or beside a wall clock that moved so much on its own, the collector counts as stopped. */
const stillMs = 180_000;

/** The last observation, by both clocks. */
export interface Reading {
  wallMs: number;
  monotonicMs: number;
}

/** Moves a period to what is observed now. Returns the accounts of the time until then, and the period that is open. */
export const movePeriod = (
  period: Period,
  last: Reading,
  now: Reading,
  observe: () => Omit<Observation, "wallMs">,
): { closed: AccountContent[]; period: Period } => {
  const at = (wallMs: number): Observation => ({ ...observe(), wallMs });
  const elapsed = now.monotonicMs - last.monotonicMs;
  if (elapsed > stillMs || Math.abs(now.wallMs - last.wallMs - elapsed) > stillMs) {
    const closed = [closePeriod(period, last.wallMs, at(last.wallMs))];
    if (now.wallMs > last.wallMs) closed.push(stoppedAccount(last.wallMs, now.wallMs, observe().nextSequence));
    return { closed, period: beginPeriod(at(now.wallMs)) };
  }
  const endMs = (Math.floor(period.fromMs / hourMs) + 1) * hourMs;
  if (now.wallMs < endMs) return { closed: [], period };
  return { closed: [closePeriod(period, endMs, at(endMs))], period: beginPeriod(at(endMs)) };
};

/**
 * Returns the accounts of the time from when a saved period was last seen until now, and the period that begins now. What the sequences say
 * was accepted and the period does not have is of the empty kind.
 */
export const resumePeriod = (
  saved: Period,
  observed: Observation,
): { closed: { queueId: string; content: AccountContent }[]; period: Period } => {
  const closed: { queueId: string; content: AccountContent }[] = [];
  const { queueId } = saved;
  const seenMs = saved.isClosed ? saved.fromMs : saved.seenMs;
  // Damage took what was accepted later back from this period, or another version accepted it: of what kind, nobody knows.
  const unknown = Math.max(0, observed.nextSequence - saved.nextSequence);
  if (!saved.isClosed || unknown > 0) {
    const nextSequence = saved.nextSequence + unknown;
    const content = { ...closePeriod(saved, seenMs, { ...observed, nextSequence }), atLeast: true };
    if (unknown > 0) content.accepted = [...content.accepted, { kind: "", source: "", records: unknown, bytes: 0 }];
    closed.push({ queueId, content });
  }
  if (observed.wallMs > seenMs)
    closed.push({ queueId: observed.queueId, content: stoppedAccount(seenMs, observed.wallMs, observed.nextSequence) });
  return { closed, period: beginPeriod(observed) };
};

/** Returns a copy, of which counts may be added to. */
export const copyPeriod = (period: Period): Period => ({
  ...period,
  accepted: period.accepted.map((count) => ({ ...count })),
  refused: period.refused.map((count) => ({ ...count })),
});

/** Adds counts of accepted records. */
export const addAccepted = (period: Period, counts: readonly RecordCount[]): void => {
  for (const { kind, source, records, bytes } of counts) {
    const found = period.accepted.find((each) => each.kind === kind && each.source === source);
    if (found) {
      found.records += records;
      found.bytes += bytes;
    } else period.accepted.push({ kind, source, records, bytes });
  }
};

/** Adds records that were not accepted. */
export const addRefused = (
  period: Period,
  reason: SourceRefusal,
  { kind, source, records }: Readonly<RefusedRecords>,
): void => {
  const isSame = (one: RefusedCount) => one.reason === reason && one.kind === kind && one.source === source;
  const found = period.refused.find(isSame);
  if (found) found.records += records;
  else if (records > 0) period.refused.push({ reason, kind, source, records });
};
