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

it.each<[where: string, earlier: readonly EarlierId[], changes?: Partial<ReadAccount>]>([
  ["core has stored all of it", [id()]],
  ["core has discarded the rest", [id({ stored: 8n, discarded: 2n })]],
  ["it is in an account", [id({ last: 10n, stored: 0n })]],
  ["a part is in an account", [id({ last: 4n })], { firstSequence: 5n, ackedBefore: 6n }],
  ["nothing was acknowledged", [], { ackedBefore: 0n }],
  ["core has more of it than it could answer", [id({ cursor: 14n, acked: 10n })]],
])("is no loss where %s", (_, earlier, changes) => {
  expect(decide(earlier, changes)).toEqual(nothing);
});

it("is no loss where a database lost it, which is named as that", () => {
  const cut = id({ cursor: 6n, acked: 10n });
  expect(decideEarlier(account, [cut], [{ from: 7n, through: 10n }])).toEqual(nothing);
});

/** Core has more than was acknowledged. */
const ahead = { cursor: 14n, acked: 10n };
const rest = { firstSequence: 5n, ackedBefore: 6n };
it.each<[EarlierId, Partial<typeof nothing>, Partial<ReadAccount>?]>([
  [id({ stored: 7n, rejected: 2n }), { rejected: 2n, missing: 1n }],
  // All that the host has sent again is stored.
  [id({ ...ahead, stored: 12n, rejected: 1n, above: 4n }), { rejected: 1n, missing: 1n }],
  // But one, which was rejected.
  [id({ ...ahead, stored: 11n, rejected: 3n, above: 3n }), { rejected: 2n }],
  [id({ last: 4n, stored: 4n }), { missing: 2n }, rest],
])("is rejected or missing where core has counted it so (%#)", (earlier, counts, changes) => {
  expect(decide([earlier], changes)).toEqual({ ...nothing, ...counts });
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

const short = id({ stored: 9n });
it.each<[EarlierId | undefined, Partial<ReadAccount>?]>([
  [undefined],
  [{ ...id(), range: undefined }],
  [id({ countedThrough: 8n })],
  [{ ...short, isForked: true }],
  [id({ cursor: 6n })],
  [short, { lastSequence: 8n, ackedBefore: 8n }],
  [short, rest],
  [id({ ...ahead, above: 3n, stored: 13n })],
  [id({ ...ahead, above: 3n, stored: 12n, rejected: 1n, discarded: 1n })],
  [id({ stored: 11n })],
])(
  "is unknown where core has not counted it, or another account may have what is not stored (%#)",
  (earlier, changes) => {
    expect(decide(earlier === undefined ? [] : [earlier], changes)).toEqual(unknown);
  },
);

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
