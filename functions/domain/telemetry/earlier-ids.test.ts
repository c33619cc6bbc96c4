import { expect, it } from "vitest";
import { decideEarlier, type EarlierId, earlierThan } from "./earlier-ids.ts";
import type { ReadAccount } from "./read-account.ts";

/** An account of sequences 1 to 20; 1 to 10 were acknowledged under earlier ids. */
const account = { firstSequence: 1n, lastSequence: 20n, ackedBefore: 10n } as ReadAccount;
const nothing = { rejected: 0n, missing: 0n, isUnknown: false };
const unknown = { ...nothing, isUnknown: true };

type Counts = Partial<NonNullable<EarlierId["range"]>> & {
  last?: bigint;
  acked?: bigint;
  above?: bigint;
};
/** An id of which core has stored all through `cursor`, unless told otherwise. */
const id = ({ last, acked, above = 0n, cursor = 10n, ...counts }: Counts = {}) => ({
  storedAbove: above,
  isForked: false,
  ackedThrough: acked ?? cursor,
  last: last === undefined ? undefined : { lastSequence: last },
  range: {
    cursor,
    stored: cursor - (last ?? 0n),
    rejected: 0n,
    discarded: 0n,
    lost: 0n,
    countedThrough: cursor,
    ...counts,
  },
});
const decide = (earlier: readonly EarlierId[], changes: Partial<ReadAccount> = {}) =>
  decideEarlier({ ...account, ...changes }, earlier);

it("is no loss where core has stored or discarded all of it, or it is in an account", () => {
  expect(decide([id()])).toEqual(nothing);
  expect(decide([id({ stored: 8n, discarded: 2n })])).toEqual(nothing);
  expect(decide([id({ last: 10n, stored: 0n })])).toEqual(nothing);
  expect(decide([id({ last: 4n })], { firstSequence: 5n, ackedBefore: 6n })).toEqual(nothing);
  expect(decide([], { ackedBefore: 0n })).toEqual(nothing);
  // Core has more of it than it could answer.
  expect(decide([id({ cursor: 14n, acked: 10n })])).toEqual(nothing);
  // What a database lost is named as that.
  const cut = id({ cursor: 6n, acked: 10n });
  expect(decideEarlier(account, [cut], [{ from: 7n, through: 10n }])).toEqual(nothing);
});

it("is rejected or missing where core has counted it so", () => {
  const short = id({ stored: 7n, rejected: 2n });
  expect(decide([short])).toEqual({ ...nothing, rejected: 2n, missing: 1n });
  // All that the host has sent again is stored.
  const ahead = id({ cursor: 14n, acked: 10n, stored: 12n, rejected: 1n, above: 4n });
  expect(decide([ahead])).toEqual({ ...nothing, rejected: 1n, missing: 1n });
  // But one, which was rejected.
  const rejected = id({ cursor: 14n, acked: 10n, stored: 11n, rejected: 3n, above: 3n });
  expect(decide([rejected])).toEqual({ ...nothing, rejected: 2n });
  const behind = id({ last: 4n, stored: 4n });
  const rest = { firstSequence: 5n, ackedBefore: 6n };
  expect(decide([behind], rest)).toEqual({ ...nothing, missing: 2n });
});

it("adds up over several ids, also one under which nothing was acknowledged", () => {
  const first = id({ cursor: 6n, stored: 5n });
  const second = id({ cursor: 10n, stored: 3n, rejected: 1n });
  const idle = { ...id({ acked: 0n }), range: undefined };
  expect(decide([idle, second, idle, first])).toEqual({
    ...nothing,
    rejected: 1n,
    missing: 1n,
  });
});

it("is unknown where core has not counted it, or another account may have what is not stored", () => {
  expect(decide([])).toEqual(unknown);
  expect(decide([{ ...id(), range: undefined }])).toEqual(unknown);
  expect(decide([id({ countedThrough: 8n })])).toEqual(unknown);
  expect(decide([{ ...id({ stored: 9n }), isForked: true }])).toEqual(unknown);
  expect(decide([id({ cursor: 6n })])).toEqual(unknown);
  const short = id({ stored: 9n });
  expect(decide([short], { lastSequence: 8n, ackedBefore: 8n })).toEqual(unknown);
  expect(decide([short], { firstSequence: 5n, ackedBefore: 6n })).toEqual(unknown);
  const ahead = { cursor: 14n, acked: 10n, above: 3n };
  expect(decide([id({ ...ahead, stored: 13n })])).toEqual(unknown);
  const untold = { ...id({ ...ahead, stored: 8n, rejected: 6n }), storedAbove: undefined };
  expect(decide([untold])).toEqual(unknown);
  expect(decide([id({ ...ahead, stored: 12n, rejected: 1n, discarded: 1n })])).toEqual(unknown);
  expect(decide([id({ stored: 11n })])).toEqual(unknown);
});

it("is of the ids before the account's own", () => {
  const [first, second, third] = [1, 2, 3].map((byte) => new Uint8Array(16).fill(byte));
  if (!first || !second || !third) throw new Error("unreachable");
  const left = [second, first].map((queueId) => ({ queueId, ackedThrough: 1n }));
  const stream = { queueId: third, left };
  expect(earlierThan(third, stream)).toEqual(left);
  expect(earlierThan(second, stream)).toEqual(left.slice(1));
  expect(earlierThan(first, stream)).toEqual([]);
  expect(earlierThan(new Uint8Array(16), stream)).toEqual([]);
  expect(earlierThan(third, undefined)).toEqual([]);
});
