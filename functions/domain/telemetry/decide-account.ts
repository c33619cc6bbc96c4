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
  /** The cursor up to which it is counted; null if it is not counted. */
  countedThrough: bigint | null;
}

/** Sequences by outcome. */
export type RangeCounts = Pick<QueueRange, "stored" | "rejected" | "discarded" | "lost">;

/** No sequences. */
export const noCounts: RangeCounts = { stored: 0n, rejected: 0n, discarded: 0n, lost: 0n };

/** The decision on an account. */
export type AccountDecision =
  /** Core has it already. */
  | { kind: "known" }
  /** The sequences between `through` and this account have to arrive first. */
  | { kind: "early" }
  /** `counts`: the account's part of what core has counted. */
  | {
      kind: "accepted";
      isChecked: boolean;
      followsGap: boolean;
      missing: bigint;
      counts: RangeCounts;
    }
  /** `isLinked`: the next account may follow this one, because the host has signed it. */
  | { kind: "refused"; fault: AccountFault; isLinked: boolean };

/** What core knows of a range apart from the counts. */
export interface RangeFacts {
  /** The ranges of the queue that restored databases have lost. */
  gaps: readonly LostRange[];
  /** Stored envelopes of the range. */
  stored: bigint;
}

/** What core knows when an account arrives. */
interface AccountContext {
  last: StoredAccount | undefined;
  same: boolean;
  /** Core has lost the account of an earlier id of the queue that account number 1 names. */
  lacksPrevious?: boolean;
  /** An earlier account has ended the queue. */
  isEnded?: boolean;
  range: QueueRange | undefined;
  /** Core's records of the account's range if the queue is ahead of it. */
  has: RangeFacts;
}

/** Decides on an account, whose signature is valid if `isSigned`, by the account before it and what core has counted since. */
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
  // Core had this account, and those after it, until its database was restored. The queue may have dropped some of its records.
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
 * Returns how many sequences that core counts as lost an account does not state. A restored database has lost them, but they were
 * acknowledged under the queue's earlier id, are below the first account, or the account before it states them as missing, above the
 * cursor.
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
  const own = isFirst ? 0n : lower(behind, lost);
  return lower(
    lower(below, lost - own) + lostOfAckedBefore(gaps, { firstSequence, ackedBefore }),
    lost,
  );
};

/** Returns how many sequences of `gaps` an account states as acknowledged under its queue's earlier ids, to which these gaps belong. */
export const lostOfAckedBefore = (
  gaps: readonly LostRange[],
  { firstSequence, ackedBefore }: Pick<ReadAccount, "firstSequence" | "ackedBefore">,
): bigint => lostWithin(gaps, { firstSequence, lastSequence: firstSequence + ackedBefore - 1n });

const sequenceMax = 2n ** 63n - 1n;

/**
 * Returns how many sequences of `gaps` no account states. Accounts of the earlier ids end with the sequences `stated`. The first account of
 * an id states its own from there; sequences before it count only if it follows another id.
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
  const ownFrom = firstSequence + ackedBefore;
  const before = {
    firstSequence: next,
    lastSequence: previousQueueId.length > 0 ? firstSequence - 1n : 0n,
  };
  const after = { firstSequence: ownFrom > next ? ownFrom : next, lastSequence: sequenceMax };
  return lostWithin(gaps, before) + lostWithin(gaps, after);
};

const lower = (a: bigint, b: bigint) => (a < b ? a : b);

/** Returns an account's part of counts: so many sequences as it expects, of which so many are lost, and stored. */
const partOf = (
  counts: RangeCounts,
  expected: bigint,
  lost: bigint,
  stored: bigint,
): RangeCounts => {
  const bounds = [
    ["lost", lower(lost, counts.lost)],
    ["stored", lower(stored, counts.stored)],
    ["rejected", counts.rejected],
    ["discarded", counts.discarded],
  ] as const;
  const part = { ...noCounts };
  let left = expected;
  for (const [name, most] of bounds) {
    part[name] = lower(most, left);
    left -= part[name];
  }
  return part;
};
