import { fromBinary } from "@bufbuild/protobuf";
import { AccountBodySchema } from "../gen/svc/ingest/v1/ingest_pb.js";
import { type StatedLosses, statedLosses } from "./account.ts";
import type { AccountFacts } from "./hour-accounts.ts";

/** Sequences that a restored database or stream has lost, the first and the last. */
export interface LostRange {
  from: bigint;
  through: bigint;
}

/** Counts the sequences of ranges within another one. Ranges may overlap: two copies of a queue each report their losses. */
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

/** The counts from which a lost range is subtracted, the last first: the sequences of rejected and missing records are unknown. */
const leastLost = ["missing", "rejected", "discarded", "stored"] as const;

/**
 * Returns the counts of an accepted account after its stream has lost ranges, of its own queue or of those that the host has left. Counts a
 * record that core had rejected or missed in a lost range twice.
 */
export const withLosses = <Account extends Counts & { body: Uint8Array; lastSequence: bigint }>(
  account: Account,
  ranges: readonly (LostRange & { isOwn: boolean })[],
): Account => {
  if (ranges.length === 0) return account;
  const { own, earlier } = partsOf(account);
  const lostOwn = countLost(ranges, { isOwn: true, part: own });
  const lostEarlier = countLost(ranges, { isOwn: false, part: earlier });

  const { stored, rejected, discarded, missing, lost } = account;
  const acceptedOwn = Number(own.lastSequence - own.firstSequence + 1n);
  // The account counts records of the earlier part only if they were rejected, missed or lost there.
  const namedEarlier = stored + rejected + discarded + missing + lost - acceptedOwn;
  const leftEarlier = Math.max(0, namedEarlier - Math.min(lost, lostEarlier));

  let left = acceptedOwn - lostOwn + leftEarlier;
  const counts = { missing: 0, rejected: 0, discarded: 0, stored: 0 };
  for (const name of leastLost) {
    counts[name] = Math.max(0, Math.min(account[name], left));
    left -= counts[name];
  }
  return { ...account, ...counts, lost: Math.max(lost, lostOwn + lostEarlier) };
};

interface Part {
  firstSequence: bigint;
  lastSequence: bigint;
}

/** Splits the sequences of an account into those acknowledged under an earlier id of its queue, whose ranges they lie in, and its own. */
const partsOf = ({
  accepted,
  body,
  lastSequence,
}: {
  accepted: number;
  body: Uint8Array;
  lastSequence: bigint;
}): { earlier: Part; own: Part } => {
  const { ackedBeforeThrough } = fromBinary(AccountBodySchema, body);
  const firstSequence = lastSequence - BigInt(accepted) + 1n;
  const ownFrom = ackedBeforeThrough < firstSequence ? firstSequence : ackedBeforeThrough + 1n;
  const earlierThrough = ownFrom > lastSequence ? lastSequence : ownFrom - 1n;
  return {
    earlier: { firstSequence, lastSequence: earlierThrough },
    own: { firstSequence: ownFrom, lastSequence },
  };
};

const countLost = (
  ranges: readonly (LostRange & { isOwn: boolean })[],
  { isOwn, part }: { isOwn: boolean; part: Part },
): number => {
  const chosen = ranges.filter((range) => range.isOwn === isOwn);
  return Number(lostWithin(chosen, part));
};

/** Returns the losses that the body of an accepted account states. */
export const readLosses = (bytes: Uint8Array): StatedLosses =>
  statedLosses(fromBinary(AccountBodySchema, bytes));
