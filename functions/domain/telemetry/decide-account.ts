import { equalBytes } from "#kit/bytes.ts";
import { type LostRange, lostWithin } from "#proto/completeness/lost-ranges.ts";
import type { AccountFault, ReadAccount } from "./read-account.ts";

/** An account that core has. */
export interface StoredAccount {
  number: bigint;
  sha256: Uint8Array;
  lastSequence: bigint;
}

/** What core has counted of a queue since its last account. */
export interface QueueRange {
  cursor: bigint;
  stored: bigint;
  rejected: bigint;
  discarded: bigint;
  lost: bigint;
  /** The cursor through which that is counted; null if it is not. */
  countedThrough: bigint | null;
}

/** Sequences, by what became of them. */
export type RangeCounts = Pick<QueueRange, "stored" | "rejected" | "discarded" | "lost">;

/** No sequences. */
export const noCounts: RangeCounts = { stored: 0n, rejected: 0n, discarded: 0n, lost: 0n };

/** What core makes of an account. */
export type AccountDecision =
  /** Core has it already. */
  | { kind: "known" }
  /** Those between `through` and this one have to come first. */
  | { kind: "early" }
  /** `counts`: its part of what core has counted. */
  | {
      kind: "accepted";
      isChecked: boolean;
      followsGap: boolean;
      missing: bigint;
      counts: RangeCounts;
    }
  /** `isLinked`: the next account may follow this one, since the host has signed it. */
  | { kind: "refused"; fault: AccountFault; isLinked: boolean };

/** What is known of a range apart from the counts. */
export interface RangeFacts {
  /** The ranges of the queue that restored databases have lost. */
  gaps: readonly LostRange[];
  /** Stored envelopes of it. */
  stored: bigint;
}

/** The facts that core has when an account arrives. */
interface AccountContext {
  last: StoredAccount | undefined;
  same: boolean;
  /** Core has had the account of an earlier id of the queue that number 1 names, and lost it. */
  lacksPrevious?: boolean;
  /** An earlier account has ended the queue. */
  isEnded?: boolean;
  range: QueueRange | undefined;
  /** Core's records of its range where the queue is ahead of it. */
  has: RangeFacts;
}

/** Decides on an account whose signature `isSigned`, by the account before and what core has counted since. */
export const decideAccount = (
  account: ReadAccount & { sha256: Uint8Array; isSigned: boolean; earlierAreLost: boolean },
  { last, same, lacksPrevious = false, isEnded = false, range, has }: AccountContext,
): AccountDecision => {
  const { number, isSigned } = account;
  if (same) return { kind: "known" };
  const head = last?.number ?? 0n;
  if (number <= head) return { kind: "refused", fault: "number_used", isLinked: false };
  const followsGap = number > head + 1n || lacksPrevious;
  if (followsGap && !account.earlierAreLost) return { kind: "early" };
  const fault = isEnded && !account.fault ? "queue_ended" : faultInChain(account, last, followsGap);
  const decided = fault ?? countRange(account, followsGap, { last, range, has });
  return typeof decided === "string"
    ? { kind: "refused", fault: decided, isLinked: isSigned }
    : decided;
};

const faultInChain = (
  { fault, previousSha256, firstSequence }: ReadAccount,
  last: StoredAccount | undefined,
  followsGap: boolean,
): AccountFault | undefined => {
  if (fault !== undefined || last === undefined) return fault;
  if (!followsGap && !equalBytes(previousSha256, last.sha256)) return "predecessor_differs";
  return firstSequence <= last.lastSequence ? "contradicts_sequences" : undefined;
};

/** Compares an account with what core has counted. */
const countRange = (
  account: ReadAccount,
  followsGap: boolean,
  { last, range, has }: Pick<AccountContext, "last" | "range" | "has">,
): Extract<AccountDecision, { kind: "accepted" }> | AccountFault => {
  const expected = account.accepted - account.ackedBefore;
  const isWhole = last === undefined || account.firstSequence === last.lastSequence + 1n;
  const isCounted = range === undefined ? expected === 0n : range.countedThrough === range.cursor;
  const isBehind = range === undefined || range.cursor <= account.lastSequence;
  const unchecked = { kind: "accepted", isChecked: false, followsGap, missing: 0n } as const;
  const counts = range ?? noCounts;
  // Core had this account, and those behind it, until its database was restored. The queue may have given up some of its records.
  if (!isBehind) {
    const part = partOf(counts, expected, lostWithin(has.gaps, account), has.stored);
    return { ...unchecked, counts: part, missing: isCounted ? expected - consumedOf(part) : 0n };
  }
  if (!isWhole || !isCounted || followsGap) return { ...unchecked, counts };
  const consumed = consumedOf(counts);
  if (consumed <= expected)
    return { ...unchecked, isChecked: true, missing: expected - consumed, counts };
  // Of a queue that had records before its first account, core has more.
  return last ? "contradicts_sequences" : { ...unchecked, counts };
};

/** Returns how many sequences were counted. */
export const consumedOf = ({ stored, rejected, discarded, lost }: RangeCounts): bigint =>
  stored + rejected + discarded + lost;

/**
 * Returns how much of what core counts as lost of a queue an account does not state: a restored database has lost its place, but it was
 * acknowledged under the queue's earlier id, or lies below the first account, or the account before has it: as missing, above the cursor.
 */
export const lostElsewhere = (
  { lost }: Pick<QueueRange, "lost">,
  {
    firstSequence,
    ackedBefore,
    isFirst,
  }: Pick<ReadAccount, "firstSequence" | "ackedBefore"> & { isFirst: boolean },
  gaps: readonly LostRange[],
): bigint => {
  const behind = lostWithin(gaps, { firstSequence, lastSequence: sequenceMax });
  const below = lostWithin(gaps, { firstSequence: 0n, lastSequence: firstSequence - 1n });
  const own = isFirst ? 0n : least(behind, lost);
  return least(
    least(below, lost - own) + lostOfAckedBefore(gaps, { firstSequence, ackedBefore }),
    lost,
  );
};

/** Returns how many sequences of `gaps` an account states as acknowledged under its queue's earlier ids, whose gaps these are. */
export const lostOfAckedBefore = (
  gaps: readonly LostRange[],
  { firstSequence, ackedBefore }: Pick<ReadAccount, "firstSequence" | "ackedBefore">,
): bigint => lostWithin(gaps, { firstSequence, lastSequence: firstSequence + ackedBefore - 1n });

const sequenceMax = 2n ** 63n - 1n;

/**
 * Returns how many sequences of `gaps` no account states. Accounts of the earlier ids end with the sequences `stated`; the first account of
 * an id states what it has from those, and what lies before it is counted only if it follows another id.
 */
export const lostUnstated = (
  gaps: readonly LostRange[],
  {
    firstSequence,
    ackedBefore,
    previousQueueId,
  }: Pick<ReadAccount, "firstSequence" | "ackedBefore" | "previousQueueId">,
  stated: readonly bigint[],
): bigint => {
  let next = 1n;
  for (const last of stated) if (last >= next) next = last + 1n;
  const behind = firstSequence + ackedBefore;
  const before = {
    firstSequence: next,
    lastSequence: previousQueueId.length > 0 ? firstSequence - 1n : 0n,
  };
  const rest = { firstSequence: behind > next ? behind : next, lastSequence: sequenceMax };
  return lostWithin(gaps, before) + lostWithin(gaps, rest);
};

const least = (one: bigint, other: bigint) => (one < other ? one : other);

/** Returns the part of counts that is an account's which expects so many sequences, of which so many are lost, and stored. */
const partOf = (
  counts: RangeCounts,
  expected: bigint,
  lost: bigint,
  stored: bigint,
): RangeCounts => {
  let left = expected;
  const take = (most: bigint) => {
    const taken = most < left ? most : left;
    left -= taken;
    return taken;
  };
  return {
    lost: take(least(lost, counts.lost)),
    stored: take(least(stored, counts.stored)),
    rejected: take(counts.rejected),
    discarded: take(counts.discarded),
  };
};
