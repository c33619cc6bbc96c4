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

/** Where core counts what it has stored of queues: beside their cursors, or in the stream that has their envelopes. */
export interface AccountRanges {
  readonly sink: "postgres" | "nats";
  /**
   * Reads what needs no transaction, for an account that begins at `firstSequence`, which is undefined where no queue is known by that name. The
   * function that it returns locks the queue's accounts until the transaction ends, and returns what is counted since the last one. Without
   * a lock, what is counted may be older than the last account.
   */
  read(
    queue: QueueName,
    firstSequence: bigint | undefined,
  ): Promise<(tx: Executor, options?: { isLocking: boolean }) => Promise<LockedRange>>;
}

/** The columns of an account that are of the stream that stores its range. */
export type StreamColumns = Pick<AccountInsert, "streamTotals" | "stream" | "streamEnd">;

/** Those of an account that no stream stores. */
export const noStream: StreamColumns = { streamTotals: null, stream: null, streamEnd: null };

/** What is counted of a queue whose accounts are locked. */
export interface LockedRange extends AccountState {
  /** Goes on counting behind an account, which takes `counts` of the range; returns what its row keeps of a stream. */
  take(account: { counts: RangeCounts; lastSequence: bigint }): Promise<StreamColumns>;
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
 * Returns the ranges for an account, of whose queue `gaps` are lost: without what is lost elsewhere, which the account takes off nevertheless,
 * and with what is lost above the cursor, which moves over nothing once the host has left the queue.
 */
export const withoutEarlierIds = (
  ranges: LockedRange,
  read: ReadAccount,
  gaps: readonly LostRange[],
): LockedRange => {
  const { last, take, range = gaps.length > 0 ? unknownRange : undefined } = ranges;
  if (range === undefined) return ranges;
  const { firstSequence, lastSequence, ackedBefore } = read;
  const own = firstSequence + ackedBefore;
  const above = { firstSequence: own > range.cursor ? own : range.cursor + 1n, lastSequence };
  const less =
    lostElsewhere(range, { ...read, isFirst: last === undefined }, gaps) - lostWithin(gaps, above);
  return {
    ...ranges,
    range: { ...range, lost: range.lost - less },
    take: ({ counts, lastSequence }) =>
      take({ counts: { ...counts, lost: counts.lost + less }, lastSequence }),
  };
};

/** The ranges of PostgreSQL's sink: the transaction that moves a cursor counts. */
export const postgresRanges: AccountRanges = {
  sink: "postgres",
  read: async (queue) => async (tx, options) => {
    const state = await readForAccount(tx, queue, options);
    return {
      ...state,
      take: async ({ counts, lastSequence }) => {
        if (state.range === undefined) return noStream;
        const { cursor, countedThrough } = state.range;
        // What is counted above an account stays, if it can be told apart.
        await takeFromRange(tx, queue, counts, countedThrough === cursor || cursor <= lastSequence);
        return noStream;
      },
    };
  },
};

/** Makes the ranges of a stream; `count` returns what it has of a queue, and null for one that it does not know. */
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
        // The blocks of a stream have their digests there.
        range: range && { ...range, digest: null, sessionId: counted?.sessionId ?? null },
        take: async (account) => {
          const totals = counted && range ? totalsThrough(counted, range, account) : null;
          const { stream = null, sequence = null } = counted?.end ?? {};
          return { streamTotals: totals && formatTotals(totals), stream, streamEnd: sequence };
        },
      };
    };
  },
});
