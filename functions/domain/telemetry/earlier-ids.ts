/**
 * Finds the outcome of an account's records that its host had sent under earlier ids of the queue. No account of those ids names them, so
 * their outcome is what core has counted there since the last account.
 */

import type { Executor } from "#functions/store/database/database.ts";
import {
  countStoredWithin,
  findLostRanges,
  hasRefusedAccount,
  type LastAccount,
  readForAccount,
  sumLostOfTime,
} from "#functions/store/ingest/accounts.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import { highest } from "#kit/bigint.ts";
import { equalBytes } from "#kit/bytes.ts";
import { type LostRange, lostWithin } from "#proto/completeness/lost-ranges.ts";
import {
  consumedOf,
  lostOfAckedBefore,
  lostUnstated,
  type QueueRange,
  type StoredAccount,
} from "./decide-account.ts";
import type { ReadAccount } from "./read-account.ts";

/** An earlier id of a queue, and the sequence up to which core had acknowledged it to the host. */
export interface LeftId {
  queueId: Uint8Array;
  ackedThrough: bigint;
}

/** What core knows of an earlier id: its last account, and the counts since. */
export interface EarlierId extends Pick<LeftId, "ackedThrough"> {
  last: Pick<StoredAccount, "lastSequence"> | undefined;
  range: QueueRange | undefined;
  /** It has two histories: the counts may belong to another account than the last. */
  isForked: boolean;
  /** Records stored above `ackedThrough`, which the host has sent again. */
  storedAbove: bigint;
}

/** The outcome of an account's records under earlier ids. */
export interface EarlierCounts {
  lost: bigint;
  rejected: bigint;
  missing: bigint;
  /** Core does not know the outcome of some. */
  isUnknown: boolean;
}

const none: EarlierCounts = { lost: 0n, rejected: 0n, missing: 0n, isUnknown: false };

/** Returns the ids that a stream's queue had before the one of an account, newest first; none if that is not one of them. */
export const earlierThan = (
  queueId: Uint8Array,
  stream: { queueId: Uint8Array; left?: readonly LeftId[] | undefined } | undefined,
): readonly LeftId[] => {
  const left = stream?.left ?? [];
  if (stream === undefined || equalBytes(stream.queueId, queueId)) return left;
  const at = left.findIndex((id) => equalBytes(id.queueId, queueId));
  return at < 0 ? [] : left.slice(at + 1);
};

/**
 * Counts the outcome of an account's records under earlier `ids`, in the transaction that has locked its queue, of which `last` is the last
 * account.
 */
export const countEarlier = async (
  tx: Executor,
  read: ReadAccount | undefined,
  { ids, last }: { ids: readonly LeftId[]; last: LastAccount | undefined },
): Promise<EarlierCounts> => {
  const isAcked = read !== undefined && read.ackedBefore > 0n;
  // A stop after the first account has the same start: the host did run during it.
  const isFirst = last === undefined || (last.number === 1n && read?.isStopped === true);
  if (read === undefined || !(isAcked || isFirst)) return none;
  if (ids.length === 0) return { ...none, isUnknown: isAcked };
  const queueIds = ids.map(({ queueId }) => queueId);
  const gaps = await findLostRanges(tx, read.hostId, queueIds);
  if (gaps.length === 0 && !isAcked) return none;
  const earlier = await Promise.all(ids.map((id) => readEarlierId(tx, read, id)));
  const accounts = [last, ...earlier.map((id) => id.last)];
  const stated = accounts.map((account) => account?.lastSequence ?? 0n);
  const unstated = isFirst && gaps.length > 0 ? lostUnstated(gaps, read, stated) : 0n;
  // A host whose account was not acknowledged under an earlier id states it again. That of a copy has another time or range.
  const counted = gaps.length > 0 ? await sumLostOfTime(tx, read, queueIds) : 0n;
  return {
    ...decideEarlier(read, earlier, gaps),
    lost: lostOfAckedBefore(gaps, read, counted) + unstated,
  };
};

const readEarlierId = async (
  tx: Executor,
  { hostId }: ReadAccount,
  { queueId, ackedThrough }: LeftId,
): Promise<EarlierId> => {
  const queue: QueueName = { hostId, queueId };
  // The host has left this id, so no lock is needed.
  const { last, range } = await readForAccount(tx, queue, { isLocking: false });
  const above = { firstSequence: ackedThrough + 1n, lastSequence: range?.cursor ?? 0n };
  const isAbove = above.firstSequence <= above.lastSequence;
  const storedAbove = isAbove ? await countStoredWithin(tx, queue, above) : 0n;
  return { ackedThrough, last, range, isForked: await hasRefusedAccount(tx, queue), storedAbove };
};

/**
 * Decides the outcome of the records that an account states as acknowledged under `earlier` ids, newest first, of which databases lost
 * `gaps`. If core has not counted every record of an id as stored, only an account that has them all can name the others.
 */
export const decideEarlier = (
  { firstSequence, lastSequence, ackedBefore }: ReadAccount,
  earlier: readonly EarlierId[],
  gaps: readonly LostRange[] = [],
): Omit<EarlierCounts, "lost"> => {
  const stated = earlier.reduce(
    (most, { last }) => highest(most, last?.lastSequence ?? 0n),
    firstSequence - 1n,
  );
  const through = firstSequence + ackedBefore - 1n;
  const sum = { rejected: 0n, missing: 0n, isUnknown: false };
  if (through <= stated) return sum;
  let behind = 0n;
  for (const { last, range, isForked, ackedThrough, storedAbove } of earlier.toReversed()) {
    const base = highest(behind, last?.lastSequence ?? 0n);
    behind = highest(base, ackedThrough);
    if (ackedThrough <= highest(base, stated)) continue;
    if (range === undefined || isForked || range.countedThrough !== range.cursor)
      return { ...sum, isUnknown: true };
    const lost = lostWithin(gaps, {
      firstSequence: range.cursor + 1n,
      lastSequence: ackedThrough,
    });
    const missing = highest(range.cursor, ackedThrough) - base - consumedOf(range) - lost;
    if (missing === 0n && range.rejected === 0n) continue;
    // Of those not stored above, each was rejected if nothing else happened to any: the host has sent it again, and its own account names
    // it.
    const above = highest(range.cursor, ackedThrough) - ackedThrough - storedAbove;
    const isClear = above === 0n || (missing === 0n && range.discarded === 0n);
    const hasAll = firstSequence <= base + 1n && ackedThrough <= lastSequence && isClear;
    if (missing < 0n || !hasAll || above > range.rejected) return { ...sum, isUnknown: true };
    sum.missing += missing;
    sum.rejected += range.rejected - above;
  }
  return { ...sum, isUnknown: behind < through };
};
