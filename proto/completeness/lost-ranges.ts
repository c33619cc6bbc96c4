import { fromBinary } from "@bufbuild/protobuf";
import { AccountBodySchema } from "../gen/svc/ingest/v1/ingest_pb.js";
import type { AccountFacts } from "./hour-state.ts";

/** Sequences that a restored database or stream has lost, the first and the last. */
export interface LostRange {
  from: bigint;
  through: bigint;
}

/** Returns how many sequences ranges have within another one. They may overlap: two copies of a queue each report what was lost of it. */
export const lostWithin = (
  ranges: readonly LostRange[],
  { firstSequence, lastSequence }: { firstSequence: bigint; lastSequence: bigint },
): bigint => {
  let lost = 0n;
  let next = firstSequence;
  for (const { from, through } of ranges.toSorted((one, other) =>
    one.from < other.from ? -1 : 1,
  )) {
    if (from > next) next = from;
    const end = (through < lastSequence ? through : lastSequence) + 1n;
    if (end <= next) continue;
    lost += end - next;
    next = end;
  }
  return lost;
};

type Counts = Pick<
  AccountFacts,
  "accepted" | "stored" | "rejected" | "discarded" | "lost" | "missing"
>;

/**
 * Returns the counts of an accepted account as they are since its stream has lost ranges, of its own queue or of those that the host has left. A
 * record that core had rejected or missed in a lost range is named twice, as nobody knows its place.
 */
export const withLosses = <Account extends Counts & { body: Uint8Array; lastSequence: bigint }>(
  account: Account,
  ranges: readonly (LostRange & { isOwn: boolean })[],
): Account => {
  if (ranges.length === 0) return account;
  const { ackedBeforeThrough } = fromBinary(AccountBodySchema, account.body);
  const { accepted, lastSequence } = account;
  const firstSequence = lastSequence - BigInt(accepted) + 1n;
  // The first ones were acknowledged under an earlier id of the queue, and lie in that id's ranges.
  const ownFrom = ackedBeforeThrough < firstSequence ? firstSequence : ackedBeforeThrough + 1n;
  const count = (isOwn: boolean, first: bigint, last: bigint) => {
    const chosen = ranges.filter((range) => range.isOwn === isOwn);
    return Number(
      lostWithin(chosen, {
        firstSequence: first,
        lastSequence: last < lastSequence ? last : lastSequence,
      }),
    );
  };
  const lost = count(true, ownFrom, lastSequence);
  const lostBefore = count(false, firstSequence, ownFrom - 1n);
  const own = accepted - Number(ownFrom - firstSequence);
  const { stored, rejected, discarded, missing } = account;
  // What it names beside its own: rejected or missed under an earlier id.
  const named = stored + rejected + discarded + missing + account.lost - own;
  let left = own - lost + Math.max(0, named - Math.min(account.lost, lostBefore));
  const take = (most: number): number => {
    const taken = Math.max(0, Math.min(most, left));
    left -= taken;
    return taken;
  };
  return {
    ...account,
    missing: take(missing),
    rejected: take(rejected),
    discarded: take(discarded),
    stored: take(stored),
    lost: Math.max(account.lost, lost + lostBefore),
  };
};
