import { equalBytes } from "../../../kit/bytes.ts";
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

/** What core makes of an account. */
export type AccountDecision =
  /** Core has it already. */
  | { kind: "known" }
  /** Those between `through` and this one have to come first. */
  | { kind: "early" }
  | { kind: "accepted"; isChecked: boolean; followsGap: boolean; missing: bigint }
  /** `isLinked`: the next account may follow this one, since the host has signed it. */
  | { kind: "refused"; fault: AccountFault; isLinked: boolean };

/** Decides on an account whose signature `isSigned`, by the account before and what core has counted since. */
export const decideAccount = (
  account: ReadAccount & { sha256: Uint8Array; isSigned: boolean; earlierAreLost: boolean },
  { last, same, range }: { last: StoredAccount | undefined; same: boolean; range: QueueRange | undefined },
): AccountDecision => {
  const { number, fault, isSigned } = account;
  if (same) return { kind: "known" };
  const refuse = (of: AccountFault, isLinked = isSigned): AccountDecision => ({ kind: "refused", fault: of, isLinked });
  const head = last?.number ?? 0n;
  if (number <= head) return refuse("number_used", false);
  const followsGap = number > head + 1n;
  if (followsGap && !account.earlierAreLost) return { kind: "early" };
  if (fault !== undefined) return refuse(fault);
  if (last && !followsGap && !equalBytes(account.previousSha256, last.sha256)) return refuse("predecessor_differs");
  if (last && account.firstSequence <= last.lastSequence) return refuse("contradicts_sequences");
  const expected = account.accepted - account.ackedBefore;
  const isWhole = last === undefined || account.firstSequence === last.lastSequence + 1n;
  const isCounted = range === undefined ? expected === 0n : range.countedThrough === range.cursor;
  const isBehind = range === undefined || range.cursor <= account.lastSequence;
  if (!isWhole || !isCounted || !isBehind || followsGap)
    return { kind: "accepted", isChecked: false, followsGap, missing: 0n };
  const consumed = range === undefined ? 0n : range.stored + range.rejected + range.discarded + range.lost;
  if (consumed <= expected) return { kind: "accepted", isChecked: true, followsGap, missing: expected - consumed };
  // Of a queue that had records before its first account, core has more.
  return last ? refuse("contradicts_sequences") : { kind: "accepted", isChecked: false, followsGap, missing: 0n };
};
