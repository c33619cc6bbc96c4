/**
 * The range of an account whose envelopes are in a stream. The stream shares no transaction with the accounts: it has totals of each queue
 * since its first message, and each account stores the totals through which it is settled. Invariants:
 * - Totals rise with the cursor of their queue, except where the stream has gone back or core cannot count: then they are valid after a
 *   `CountStart`.
 * - Ranges that totals do not determine are uncounted (`countedThrough` null), never guessed.
 */
import { highest } from "#kit/bigint.ts";
import type { StreamPlace } from "#proto/completeness/hour-accounts.ts";
import { consumedOf, noCounts, type QueueRange, type RangeCounts } from "./decide-account.ts";

/** Where the totals of a queue continue: after sequences that are lost, or whose outcome is unknown. */
export interface CountStart {
  /** The first and the last of these sequences. */
  from: bigint;
  through: bigint;
  isLost: boolean;
  /** As of `through`. */
  totals: RangeCounts;
}

/** A queue as its stream has it. Totals are null until core has counted them. */
export interface CountedQueue {
  cursor: bigint;
  /** The session that opened it last. */
  sessionId: Uint8Array | null;
  /** The position through which all of it is stored; null without a message. */
  end: StreamPlace | null;
  totals: RangeCounts | null;
  /** The starts after its newest losses, oldest first. */
  countedFrom: readonly CountStart[];
}

/** The last account of a queue, and the totals through it; null if its sink had none. */
export interface SettledAccount {
  lastSequence: bigint;
  totals: RangeCounts | null;
}

const names = ["stored", "rejected", "discarded", "lost"] as const;

const combine = (
  a: RangeCounts,
  b: RangeCounts,
  operate: (a: bigint, b: bigint) => bigint,
): RangeCounts => ({
  stored: operate(a.stored, b.stored),
  rejected: operate(a.rejected, b.rejected),
  discarded: operate(a.discarded, b.discarded),
  lost: operate(a.lost, b.lost),
});

/** Adds totals. */
export const addTotals = (a: RangeCounts, b: RangeCounts): RangeCounts =>
  combine(a, b, (x, y) => x + y);

/** Returns the higher of each total: that of the later message. */
export const highestTotals = (a: RangeCounts, b: RangeCounts): RangeCounts =>
  combine(a, b, highest);

const subtract = (a: RangeCounts, b: RangeCounts): RangeCounts => combine(a, b, (x, y) => x - y);

/** Writes totals for a header of a message and for a column. */
export const formatTotals = (totals: RangeCounts): string =>
  names.map((name) => totals[name]).join();

/** Parses totals; undefined unless they have the format of `formatTotals`. */
export const parseTotals = (text: string): RangeCounts | undefined => {
  if (!/^\d{1,19}(,\d{1,19}){3}$/.test(text)) return undefined;
  const [stored = 0n, rejected = 0n, discarded = 0n, lost = 0n] = text.split(",").map(BigInt);
  return { stored, rejected, discarded, lost };
};

/** Returns the outcome of the sequences since the last account, for the account that begins at `firstSequence`. */
export const rangeSince = (
  { cursor, totals, countedFrom }: CountedQueue,
  last: SettledAccount | undefined,
  firstSequence: bigint,
): QueueRange => {
  const base = totals && baseOf(countedFrom, last, firstSequence);
  const counts = totals && base && subtract(totals, base);
  const isCounted = counts !== null && names.every((name) => counts[name] >= 0n);
  return isCounted
    ? { cursor, ...counts, countedThrough: cursor }
    : { cursor, ...noCounts, countedThrough: null };
};

/** Returns the totals through the last account, as the stream has them now; null if unknown. */
const baseOf = (
  starts: readonly CountStart[],
  last: SettledAccount | undefined,
  firstSequence: bigint,
): RangeCounts | null => {
  if (last === undefined) {
    const start = starts.findLast(({ isLost }) => !isLost);
    if (start === undefined) return noCounts;
    return start.through < firstSequence ? start.totals : null;
  }
  const { lastSequence } = last;
  const start = starts.find(({ from, through }) => from <= lastSequence && lastSequence <= through);
  if (start === undefined) return baseBehind(starts, last);
  // The stream has gone back behind the account: sequences lost below the account's end belong to settled accounts.
  const lostBehind = start.through - lastSequence;
  if (lostBehind > 0n && !start.isLost) return null;
  return { ...start.totals, lost: start.totals.lost - lostBehind };
};

/**
 * Returns the totals through the last account if no start covers its end. A start below may be newer than the account: the stream has gone
 * back behind what it acknowledged, and the account ends with sequences that the queue dropped.
 */
const baseBehind = (
  starts: readonly CountStart[],
  { lastSequence, totals }: SettledAccount,
): RangeCounts | null => {
  const start = starts.findLast(({ through }) => through < lastSequence);
  if (start === undefined || totals === null) return totals;
  const since = consumedOf(totals) - consumedOf(start.totals);
  const isNewer =
    names.some((name) => start.totals[name] > totals[name]) || since > lastSequence - start.through;
  if (!isNewer) return totals;
  const uncounted = start.isLost ? 0n : start.through - start.from + 1n;
  // More than that includes some above the start, which may be sent again.
  return since <= uncounted ? start.totals : null;
};

/** Returns the totals through an account with these `counts` of the range; null if unknown. */
export const totalsThrough = (
  { cursor, totals }: CountedQueue,
  range: QueueRange,
  { counts, lastSequence }: { counts: RangeCounts; lastSequence: bigint },
): RangeCounts | null => {
  if (totals === null) return null;
  if (range.countedThrough !== null) return addTotals(subtract(totals, range), counts);
  return cursor > lastSequence ? null : totals;
};
