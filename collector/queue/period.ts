/*
 * The time that the next account of a queue covers, and what each event makes of it. Invariants:
 * - Periods follow each other without a gap by the host's clock, also across stops: what no collector ran in is an account of its own.
 * - A period lies within one UTC hour. It ends with the hour, with the collector, and when the clock or the machine stood still.
 */
import { hourMs } from "#kit/clock.ts";
import type { AccountContent, RefusedCount, RefusedRecords } from "./account-content.ts";
import type { RecordCount, RuleCount, RuledRecords } from "./record.ts";

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
  /** Absent in periods that an earlier version saved. */
  filtered?: RuleCount[];
  redacted?: RuleCount[];
  expired: number;
  waitedMs: number;
  ackedBeforeThrough: number;
  /** When the period began. */
  totals: LossTotals;
  /** The collector has stopped, and the account of this period is written. */
  isClosed: boolean;
  /** When the queue stored the last of what damage took back; absent unless it did, and where nobody knows. */
  lostMs?: number | undefined;
}

/** A queue, and the time by both clocks. */
export interface Observation {
  queueId: string;
  nextSequence: number;
  totals: LossTotals;
  wallMs: number;
  monotonicMs: number;
}

/** An account of a queue, in hex, that is not on disk yet. */
interface UnsavedAccount {
  queueId: string;
  content: AccountContent;
}

/** The accounts of an open queue, apart from those on disk. */
interface OpenAccounts {
  readonly period: Period;
  /** Accounts of earlier times that are not written yet, the oldest first. */
  readonly unsaved: readonly UnsavedAccount[];
  readonly last: Pick<Observation, "wallMs" | "monotonicMs">;
  /** By the monotonic clock; undefined while no append waits for room. */
  readonly waitingSinceMs?: number | undefined;
  /** By the monotonic clock; never while the period on disk lacks refusals, or the start. */
  readonly savedMs: number;
}

/** An event that changes the accounts of an open queue. */
export type AccountEvent =
  | { type: "observed"; now: Observation }
  | { type: "stopped"; now: Observation; isEnd: boolean }
  | { type: "accepted"; counts: readonly RecordCount[] }
  | ({ type: "refused" } & RefusedCount)
  | ({ type: "ruled" } & RuledRecords)
  | { type: "expired"; records: number }
  | { type: "waiting"; isWaiting: boolean; monotonicMs: number }
  /** The queue has another id, under which nothing through `acked` is sent again. */
  | { type: "renamed"; queueId: string; acked: number }
  | { type: "saved" };

/** A queue that is in use observes the time at least so often, give or take a busy machine. */
export const observeMs = 30_000;
/** After so long without an observation, or beside a wall clock that moved so much on its own, the collector counts as stopped. */
const stillMs = 180_000;
const never = Number.NEGATIVE_INFINITY;

/** Returns the accounts of a queue after an event. */
export const account = (state: OpenAccounts, event: AccountEvent): OpenAccounts => {
  const { period, unsaved, last } = state;
  const changed = (changes: Partial<Period>): OpenAccounts => ({
    ...state,
    period: { ...period, ...changes },
  });
  switch (event.type) {
    case "observed":
      return observed(waited(state, event.now.monotonicMs), event.now);
    case "stopped":
      return stopped(state, event.now, event.isEnd);
    case "accepted":
      return changed({
        isClosed: period.isClosed && event.counts.length === 0,
        accepted: event.counts.reduce<RecordCount[]>(withCount, period.accepted),
      });
    case "refused": {
      const { type: _, ...count } = event;
      return {
        ...changed({ isClosed: false, refused: withCount(period.refused, count) }),
        savedMs: never,
      };
    }
    case "ruled":
      return changed({
        isClosed: false,
        filtered: event.filtered.reduce<RuleCount[]>(withCount, period.filtered ?? []),
        redacted: event.redacted.reduce<RuleCount[]>(withCount, period.redacted ?? []),
      });
    case "expired":
      return changed({ expired: period.expired + event.records });
    case "waiting":
      return {
        ...waited(state, event.monotonicMs),
        waitingSinceMs: event.isWaiting ? event.monotonicMs : undefined,
      };
    case "renamed": {
      const { queueId, acked } = event;
      return {
        ...changed({
          queueId,
          // Under the last id nothing may have been acknowledged.
          ackedBeforeThrough: Math.max(period.ackedBeforeThrough, acked),
        }),
        unsaved: unsaved.map(({ content }) => ({ queueId, content: ackedBefore(content, acked) })),
      };
    }
    case "saved":
      return { ...state, unsaved: [], savedMs: last.monotonicMs };
  }
};

/** Returns the account of a queue that got another id, under which nothing through `acked` is sent again. */
export const ackedBefore = (content: AccountContent, acked: number): AccountContent =>
  acked < Math.max(content.firstSequence, content.ackedBeforeThrough)
    ? content
    : { ...content, ackedBeforeThrough: acked };

const observed = (
  { period, unsaved, last, ...state }: OpenAccounts,
  now: Observation,
): OpenAccounts => {
  const elapsed = now.monotonicMs - last.monotonicMs;
  const hasStoodStill = elapsed > stillMs || Math.abs(now.wallMs - last.wallMs - elapsed) > stillMs;
  const hourEndMs = (Math.floor(period.fromMs / hourMs) + 1) * hourMs;
  const close = (toMs: number, next: Period, ...more: AccountContent[]): OpenAccounts => {
    const closed = [closePeriod(period, toMs, now), ...more].map((content) => ({
      queueId: period.queueId,
      content,
    }));
    return {
      ...state,
      last: now,
      unsaved: [...unsaved, ...closed],
      period: { ...next, seenMs: now.wallMs },
    };
  };
  if (hasStoodStill) {
    const stopped =
      now.wallMs > last.wallMs ? [stoppedAccount(last.wallMs, now.wallMs, now.nextSequence)] : [];
    return close(last.wallMs, beginPeriod(now), ...stopped);
  }
  if (now.wallMs >= hourEndMs) return close(hourEndMs, beginPeriod({ ...now, wallMs: hourEndMs }));
  return { ...state, last: now, unsaved, period: { ...period, seenMs: now.wallMs } };
};

/** Counts the time that appends have waited until now. */
const stopped = (
  { period, unsaved, ...state }: OpenAccounts,
  now: Observation,
  isEnd: boolean,
): OpenAccounts => {
  const { queueId } = period;
  const content = { ...closePeriod(period, now.wallMs, now), ...(isEnd && { ended: true }) };
  return {
    ...state,
    unsaved: [...unsaved, { queueId, content }],
    period: { ...beginPeriod(now), isClosed: true },
  };
};

const waited = (state: OpenAccounts, monotonicMs: number): OpenAccounts => {
  const { waitingSinceMs: since, period } = state;
  if (since === undefined) return state;
  return {
    ...state,
    waitingSinceMs: monotonicMs,
    period: { ...period, waitedMs: period.waitedMs + monotonicMs - since },
  };
};

type Counted = RefusedRecords &
  Partial<Pick<RefusedCount, "reason"> & Pick<RuleCount, "rule"> & Pick<RecordCount, "bytes">>;

const withCount = <Count extends Counted>(counts: readonly Count[], one: Count): Count[] => {
  const { reason, rule, kind, source } = one;
  const found = counts.find(
    (each) =>
      each.reason === reason && each.rule === rule && each.kind === kind && each.source === source,
  );
  if (found === undefined) return [...counts, one];
  const bytes = one.bytes !== undefined && { bytes: one.bytes + (found.bytes ?? 0) };
  const sum = { ...one, records: one.records + found.records, ...bytes };
  return counts.map((each) => (each === found ? sum : each));
};

type Begun = Omit<Observation, "monotonicMs">;

const beginPeriod = ({ queueId, wallMs, nextSequence, totals }: Begun): Period => ({
  queueId,
  fromMs: wallMs,
  seenMs: wallMs,
  firstSequence: nextSequence,
  nextSequence,
  totals,
  accepted: [],
  refused: [],
  expired: 0,
  waitedMs: 0,
  ackedBeforeThrough: 0,
  isClosed: false,
});

/** Returns the account of a period that ends at `toMs`. */
const closePeriod = (
  period: Period,
  toMs: number,
  { nextSequence, totals }: Pick<Observation, "nextSequence" | "totals">,
): AccountContent => ({
  fromMs: period.fromMs,
  toMs: Math.max(period.fromMs, toMs),
  firstSequence: period.firstSequence,
  lastSequence: nextSequence - 1,
  stopped: false,
  atLeast: false,
  accepted: period.accepted,
  refused: period.refused,
  filtered: period.filtered,
  redacted: period.redacted,
  expired: period.expired,
  damaged: since(period.totals.damaged, totals.damaged),
  fileGapBytes: since(period.totals.fileGapBytes, totals.fileGapBytes),
  fileGaps: since(period.totals.fileGaps, totals.fileGaps),
  fileGapsUnknown: since(period.totals.fileGapsUnknown, totals.fileGapsUnknown),
  waitedMs: Math.round(period.waitedMs),
  ackedBeforeThrough:
    period.ackedBeforeThrough >= period.firstSequence ? period.ackedBeforeThrough : 0,
});

/** Returns the growth of a total; 0 where an earlier version did not save what it was. */
const since = (before: number | undefined, now = 0): number => Math.max(0, now - (before ?? now));

/** Returns the account of a time in which no collector ran. */
export const stoppedAccount = (
  fromMs: number,
  toMs: number,
  nextSequence: number,
): AccountContent => ({
  fromMs,
  toMs,
  firstSequence: nextSequence,
  lastSequence: nextSequence - 1,
  stopped: true,
  atLeast: false,
  accepted: [],
  refused: [],
  expired: 0,
  damaged: 0,
  fileGapBytes: 0,
  waitedMs: 0,
  ackedBeforeThrough: 0,
});

/**
 * Returns the accounts of a queue that opens now: of the time from when its saved period was last seen, and the period that begins. What the
 * sequences say was accepted and the period does not have is of the empty kind.
 */
export const resumeAccounts = (saved: Period | undefined, now: Observation): OpenAccounts => {
  const unsaved: UnsavedAccount[] = [];
  const state = { period: beginPeriod(now), unsaved, last: now, savedMs: never };
  if (saved === undefined) return state;
  const seenMs = saved.isClosed ? saved.fromMs : saved.seenMs;
  // Damage took what was accepted later back from this period, or another version accepted it: of what kind, nobody knows.
  const unknown = Math.max(0, now.nextSequence - saved.nextSequence);
  if (!saved.isClosed || unknown > 0) {
    const nextSequence = saved.nextSequence + unknown;
    const content = { ...closePeriod(saved, seenMs, { ...now, nextSequence }), atLeast: true };
    if (unknown > 0)
      content.accepted = [
        ...content.accepted,
        { kind: "", source: "", records: unknown, bytes: 0 },
      ];
    unsaved.push({ queueId: saved.queueId, content });
  }
  const stoppedMs = unknown > 0 ? endOfLost(seenMs, saved) : seenMs;
  if (now.wallMs > stoppedMs)
    unsaved.push({
      queueId: now.queueId,
      content: stoppedAccount(stoppedMs, now.wallMs, now.nextSequence),
    });
  return state;
};

/** Returns through when nothing covers what damage took back: of several hours, nobody knows how much is of which. */
const endOfLost = (seenMs: number, { lostMs = seenMs }: Period): number =>
  Math.floor(lostMs / hourMs) > Math.floor(seenMs / hourMs) ? lostMs : seenMs;
