/**
 * Decides on accounts. For example, a host accepted the sequences 1 to 100, 10 of them under an earlier id of its queue (`ackedBefore`):
 *
 *     1..10 acknowledged   11..19 stored   20..29 lost   30..60 stored   61..100 not received
 *
 * Core expects 90. Up to its cursor, 60, it has counted 40 stored and 10 lost in a gap of a restored database, so it accepts the account with
 * 40 missing.
 */
import type { AccountState, LastAccount } from "#functions/store/ingest/accounts.ts";
import { highest, lowest } from "#kit/bigint.ts";
import { equalBytes } from "#kit/bytes.ts";
import { type LostRange, lostWithin } from "#proto/completeness/lost-ranges.ts";
import { sequenceMax } from "#proto/limits/message-limits.ts";
import type { AccountFault, ReadAccount } from "./read-account.ts";

/** An account that core has. */
export type StoredAccount = LastAccount;

/** What core has counted of a queue since its last account. */
export type QueueRange = Omit<NonNullable<AccountState["range"]>, "sessionId" | "digest">;

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
  isKnown: boolean;
  /** Core has lost the account of an earlier id of the queue that account number 1 names. */
  lacksPrevious?: boolean;
  /** An earlier account has ended the queue. */
  isEnded?: boolean;
  range: QueueRange | undefined;
  /** Core's records of the account's range if the queue is ahead of it. */
  facts: RangeFacts;
}

/** Decides on an account by the account before it and what core has counted since. `isSigned`: its signature is valid. */
export const decideAccount = (
  account: ReadAccount & { sha256: Uint8Array; isSigned: boolean; earlierAreLost: boolean },
  { last, isKnown, lacksPrevious = false, isEnded = false, range, facts }: AccountContext,
): AccountDecision => {
  const { number, isSigned } = account;
  if (isKnown) return { kind: "known" };
  const head = last?.number ?? 0n;
  if (number <= head) return { kind: "refused", fault: "number_used", isLinked: false };
  const followsGap = number > head + 1n || lacksPrevious;
  if (followsGap && !account.earlierAreLost) return { kind: "early" };
  const fault = isEnded && !account.fault ? "queue_ended" : faultInChain(account, last, followsGap);
  const decided = fault ?? countRange(account, followsGap, { last, range, facts });
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
  { last, range, facts }: Pick<AccountContext, "last" | "range" | "facts">,
): Extract<AccountDecision, { kind: "accepted" }> | AccountFault => {
  const expected = account.accepted - account.ackedBefore;
  const counts = range ?? noCounts;
  const unchecked = {
    kind: "accepted",
    isChecked: false,
    followsGap,
    missing: 0n,
    counts,
  } as const;
  const isCounted = range === undefined ? expected === 0n : range.countedThrough === range.cursor;
  // Core had this account, and those after it, until its database was restored. The queue may have dropped some of its records.
  if (range !== undefined && range.cursor > account.lastSequence) {
    const part = partOf(counts, expected, lostWithin(facts.gaps, account), facts.stored);
    return { ...unchecked, counts: part, missing: isCounted ? expected - consumedOf(part) : 0n };
  }
  const followsLast = last === undefined || account.firstSequence === last.lastSequence + 1n;
  // The counts include sequences of other accounts, or lack some of this one.
  if (!followsLast || !isCounted || followsGap) return unchecked;
  const missing = expected - consumedOf(counts);
  if (missing >= 0n) return { ...unchecked, isChecked: true, missing };
  // Core has counted more than the account states. Records from before a queue's first account explain that.
  return last ? "contradicts_sequences" : unchecked;
};

/** Returns how many sequences were counted. */
export const consumedOf = ({ stored, rejected, discarded, lost }: RangeCounts): bigint =>
  stored + rejected + discarded + lost;

/**
 * Returns how many of a queue's `lost` sequences an account does not state, because they
 * - were acknowledged under the queue's earlier id,
 * - are below its first account, or
 * - are above the cursor, and the account before it states them as missing.
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
  const fromStart = lostWithin(gaps, { firstSequence, lastSequence: sequenceMax });
  const beforeStart = lostWithin(gaps, { firstSequence: 0n, lastSequence: firstSequence - 1n });
  const beforeStartMax = isFirst ? lost : lost - lowest(fromStart, lost);
  const elsewhere =
    lowest(beforeStart, beforeStartMax) + lostOfAckedBefore(gaps, { firstSequence, ackedBefore });
  return lowest(elsewhere, lost);
};

/**
 * Returns how many sequences of `gaps`, of a queue's earlier ids, an account states as acknowledged under these. Less those of `counted`, which
 * the same account had as lost under these ids, that cannot be of other sequences.
 */
export const lostOfAckedBefore = (
  gaps: readonly LostRange[],
  { firstSequence, ackedBefore }: Pick<ReadAccount, "firstSequence" | "ackedBefore">,
  counted = 0n,
): bigint => {
  const lastSequence = firstSequence + ackedBefore - 1n;
  const within = lostWithin(gaps, { firstSequence, lastSequence });
  const others = lostWithin(gaps, { firstSequence: 0n, lastSequence: sequenceMax }) - within;
  return within - lowest(within, highest(counted - others, 0n));
};

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
  const next = stated.reduce((most, last) => highest(most, last + 1n), 1n);
  const ownFrom = firstSequence + ackedBefore;
  const before = {
    firstSequence: next,
    lastSequence: previousQueueId.length > 0 ? firstSequence - 1n : 0n,
  };
  const after = { firstSequence: highest(ownFrom, next), lastSequence: sequenceMax };
  return lostWithin(gaps, before) + lostWithin(gaps, after);
};

/** Returns the part of `counts` that belongs to an account with at most `expected` sequences, of which `lost` and `stored` are known. */
const partOf = (
  counts: RangeCounts,
  expected: bigint,
  lost: bigint,
  stored: bigint,
): RangeCounts => {
  // In this order: of the rejected and discarded sequences only the sum of all accounts is known, so they fill what is left.
  const bounds = [
    ["lost", lowest(lost, counts.lost)],
    ["stored", lowest(stored, counts.stored)],
    ["rejected", counts.rejected],
    ["discarded", counts.discarded],
  ] as const;
  const part = { ...noCounts };
  let left = expected;
  for (const [name, most] of bounds) {
    part[name] = lowest(most, left);
    left -= part[name];
  }
  return part;
};
