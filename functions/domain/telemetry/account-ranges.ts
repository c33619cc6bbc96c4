import type { Executor } from "#functions/store/database/database.ts";
import {
  type AccountState,
  readForAccount,
  takeFromRange,
} from "#functions/store/ingest/accounts.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import { highest } from "#kit/bigint.ts";
import { type LostRange, lostWithin } from "#proto/completeness/lost-ranges.ts";
import { lostElsewhere, noCounts, type RangeCounts } from "./decide-account.ts";
import type { ReadAccount } from "./read-account.ts";

/** The counts of a queue whose accounts are locked. */
export interface LockedRange extends AccountState {
  /** Subtracts an account's `counts` from the range. */
  subtract(account: { counts: RangeCounts; lastSequence: bigint }): Promise<void>;
}

/** Locks the accounts of a queue until the transaction ends, and returns what core has counted of it since the last one. */
export const lockRange = async (tx: Executor, queue: QueueName): Promise<LockedRange> => {
  const state = await readForAccount(tx, queue);
  return {
    ...state,
    subtract: async ({ counts, lastSequence }) => {
      if (state.range === undefined) return;
      const { cursor, countedThrough } = state.range;
      // Keeps the counts above an account, if they can be separated.
      await takeFromRange(tx, queue, counts, countedThrough === cursor || cursor <= lastSequence);
    },
  };
};

/** The counts of a queue without a cursor: it never had one, or a database lost it. */
const unknownRange = {
  ...noCounts,
  cursor: 0n,
  countedThrough: null,
  sessionId: null,
  digest: null,
};

/**
 * Returns the ranges for an account of a queue that has lost `gaps`: without what was lost under earlier ids, which the account subtracts
 * nevertheless, and with what was lost above the cursor, which does not move once the host has left the queue.
 */
export const withoutEarlierIds = (
  ranges: LockedRange,
  read: ReadAccount,
  gaps: readonly LostRange[],
): LockedRange => {
  const { last, subtract, range = gaps.length > 0 ? unknownRange : undefined } = ranges;
  if (range === undefined) return ranges;
  const { firstSequence, lastSequence, ackedBefore } = read;
  const above = {
    firstSequence: highest(firstSequence + ackedBefore, range.cursor + 1n),
    lastSequence,
  };
  const lostOfOthers =
    lostElsewhere(range, { ...read, isFirst: last === undefined }, gaps) - lostWithin(gaps, above);
  return {
    ...ranges,
    range: { ...range, lost: range.lost - lostOfOthers },
    subtract: ({ counts, lastSequence }) =>
      subtract({ counts: { ...counts, lost: counts.lost + lostOfOthers }, lastSequence }),
  };
};
