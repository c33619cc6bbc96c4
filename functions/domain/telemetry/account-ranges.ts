import type { Executor } from "#functions/store/database/database.ts";
import {
  type AccountInsert,
  type AccountState,
  findLastAccount,
  lockAccounts,
  readForAccount,
  takeFromRange,
} from "#functions/store/ingest/accounts.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import { highest } from "#kit/bigint.ts";
import { type LostRange, lostWithin } from "#proto/completeness/lost-ranges.ts";
import { lostElsewhere, noCounts, type RangeCounts } from "./decide-account.ts";
import type { ReadAccount } from "./read-account.ts";
import {
  type CountedQueue,
  formatTotals,
  parseTotals,
  rangeSince,
  totalsThrough,
} from "./stream-range.ts";

/** Where core counts what it has stored of queues: next to their cursors, or in the stream that has their envelopes. */
export interface AccountRanges {
  readonly sink: "postgres" | "nats";
  /**
   * Reads what needs no transaction, for an account that begins at `firstSequence`, which is undefined for an unknown queue. Returns a
   * function that locks the queue's accounts until the transaction ends, and returns the counts since the last one. Without a lock, the
   * counts may be older than the last account.
   */
  read(
    queue: QueueName,
    firstSequence: bigint | undefined,
  ): Promise<(tx: Executor, options?: { isLocking: boolean }) => Promise<LockedRange>>;
}

/** The columns of an account for the stream that stores its range. */
export type StreamColumns = Pick<AccountInsert, "streamTotals" | "stream" | "streamEnd">;

/** The columns of an account that no stream stores. */
export const noStream: StreamColumns = { streamTotals: null, stream: null, streamEnd: null };

/** The counts of a queue whose accounts are locked. */
export interface LockedRange extends AccountState {
  /** Subtracts an account's `counts` from the range; returns the stream columns of its row. */
  subtract(account: { counts: RangeCounts; lastSequence: bigint }): Promise<StreamColumns>;
}

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

/** The ranges of PostgreSQL's sink, which counts in the transaction that moves a cursor. */
export const postgresRanges: AccountRanges = {
  sink: "postgres",
  read: async (queue) => async (tx, options) => {
    const state = await readForAccount(tx, queue, options);
    return {
      ...state,
      subtract: async ({ counts, lastSequence }) => {
        if (state.range === undefined) return noStream;
        const { cursor, countedThrough } = state.range;
        // Keeps the counts above an account, if they can be separated.
        await takeFromRange(tx, queue, counts, countedThrough === cursor || cursor <= lastSequence);
        return noStream;
      },
    };
  },
};

/** Creates the ranges of a stream; `count` returns what the stream has of a queue, and null for an unknown one. */
export const createStreamRanges = (
  count: (queue: QueueName) => Promise<CountedQueue | null>,
): AccountRanges => ({
  sink: "nats",
  read: async (queue, firstSequence) => {
    const counted = firstSequence === undefined ? null : await count(queue);
    return async (tx, { isLocking } = { isLocking: true }) => {
      if (isLocking) await lockAccounts(tx, queue);
      const last = await findLastAccount(tx, queue);
      const settled = last && {
        ...last,
        totals: last.totals === null ? null : (parseTotals(last.totals) ?? null),
      };
      const range =
        counted === null ? undefined : rangeSince(counted, settled, firstSequence ?? 0n);
      return {
        last,
        // A stream stores the digests of its blocks.
        range: range && { ...range, digest: null, sessionId: counted?.sessionId ?? null },
        subtract: async (account) => {
          const totals = counted && range ? totalsThrough(counted, range, account) : null;
          const { stream = null, sequence = null } = counted?.end ?? {};
          return { streamTotals: totals && formatTotals(totals), stream, streamEnd: sequence };
        },
      };
    };
  },
});
