import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noCounts, type RangeCounts } from "./decide-account.ts";
import {
  addTotals,
  type CountedQueue,
  formatTotals,
  parseTotals,
  rangeSince,
  type SettledAccount,
  totalsThrough,
} from "./stream-range.ts";

const counts = (stored: bigint, rest: Partial<RangeCounts> = {}) => ({
  ...noCounts,
  stored,
  ...rest,
});
const queue = (cursor: bigint, totals: RangeCounts | null, rest: Partial<CountedQueue> = {}) => ({
  cursor,
  totals,
  sessionId: null,
  countedFrom: [],
  end: null,
  ...rest,
});

describe("the range of an account in a stream", () => {
  it("is what was counted since the last account", () => {
    const last = { lastSequence: 10n, totals: counts(9n, { rejected: 1n }) };
    expect(rangeSince(queue(25n, counts(22n, { rejected: 3n })), last, 11n)).toEqual({
      ...counts(13n, { rejected: 2n }),
      cursor: 25n,
      countedThrough: 25n,
    });
    expect(rangeSince(queue(25n, counts(25n)), undefined, 1n)).toMatchObject({
      stored: 25n,
      countedThrough: 25n,
    });
  });

  it("is uncounted where core has counted nothing, here or with the last account, or less than then", () => {
    const uncounted = { ...noCounts, countedThrough: null };
    const last = { lastSequence: 10n, totals: counts(10n) };
    expect(rangeSince(queue(25n, null), last, 11n)).toMatchObject(uncounted);
    expect(rangeSince(queue(25n, counts(25n)), { ...last, totals: null }, 11n)).toMatchObject(
      uncounted,
    );
    expect(rangeSince(queue(25n, counts(8n)), last, 11n)).toMatchObject(uncounted);
  });

  it("is counted again behind what nobody has counted", () => {
    const countedFrom = [{ from: 1n, through: 20n, isLost: false, totals: noCounts }];
    const now = queue(25n, counts(5n), { countedFrom });
    expect(rangeSince(now, undefined, 15n)).toMatchObject({ countedThrough: null });
    expect(rangeSince(now, undefined, 21n)).toMatchObject({ stored: 5n, countedThrough: 25n });
    expect(rangeSince(now, { lastSequence: 20n, totals: null }, 21n)).toMatchObject({ stored: 5n });
    expect(rangeSince(now, { lastSequence: 12n, totals: counts(12n) }, 13n)).toMatchObject({
      countedThrough: null,
    });
  });

  it("is counted behind an expired range and what the account before ended with and the queue gave up", () => {
    const countedFrom = [{ from: 7n, through: 11n, isLost: false, totals: counts(6n) }];
    const last = { lastSequence: 12n, totals: counts(11n) };
    expect(rangeSince(queue(18n, counts(12n), { countedFrom }), last, 13n)).toMatchObject({
      stored: 6n,
      countedThrough: 18n,
    });
  });

  it("is uncounted where the stream has records of the account before again, or may have", () => {
    const totals = counts(6n, { lost: 2n });
    const countedFrom = [{ from: 7n, through: 8n, isLost: true, totals }];
    const now = queue(14n, counts(12n, { lost: 2n }), { countedFrom });
    expect(rangeSince(now, { lastSequence: 11n, totals: counts(11n) }, 12n)).toMatchObject({
      ...noCounts,
      countedThrough: null,
    });
  });

  it("reads totals as they are written, and no others", () => {
    const totals = counts(2n ** 62n, { rejected: 3n, lost: 1n });
    expect(parseTotals(formatTotals(totals))).toEqual(totals);
    for (const text of [
      "",
      "1,2,3",
      "1,2,3,4,5",
      "1,2,3,-4",
      "1,2,3,4.5",
      `${"9".repeat(20)},0,0,0`,
    ])
      expect(parseTotals(text), text).toBeUndefined();
  });
});

/** The stream of a queue in memory: what became of each sequence, and the totals as core writes them. */
const fates = ["stored", "rejected", "discarded"] as const;
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("send" as const),
      fate: fc.constantFrom(...fates),
      count: fc.nat(9),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("give up" as const),
      count: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("account" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("restore" as const), back: fc.nat(5) }) },
);

it("is what became of the account's own sequences, however often the stream goes back between two accounts", () => {
  const property = fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
    let now: CountedQueue = queue(0n, noCounts);
    const states = [now];
    /** Undefined for those that the queue gave up: no message has them. */
    const fateOf: (keyof RangeCounts | undefined)[] = [];
    let last: SettledAccount | undefined;
    for (const one of steps) {
      if (one.do === "send") {
        const count = BigInt(one.count);
        fateOf.push(...Array.from({ length: one.count }, () => one.fate));
        const totals = addTotals(now.totals ?? noCounts, { ...noCounts, [one.fate]: count });
        if (count > 0n) now = { ...now, cursor: BigInt(fateOf.length), totals };
        states.push(now);
      } else if (one.do === "give up") {
        for (let left = one.count; left > 0; left--) fateOf.push(undefined);
      } else if (one.do === "restore") {
        // To an earlier state; the host then states what was acknowledged.
        const acked = now.cursor;
        states.length = Math.max(1, states.length - one.back);
        now = states.at(-1) ?? now;
        if (now.cursor === acked) continue;
        fateOf.fill("lost", Number(now.cursor), Number(acked));
        const totals = addTotals(now.totals ?? noCounts, { ...noCounts, lost: acked - now.cursor });
        now = {
          ...now,
          cursor: acked,
          totals,
          countedFrom: [
            ...now.countedFrom,
            { from: now.cursor + 1n, through: acked, isLost: true, totals },
          ],
        };
        states.push(now);
      } else if (one.do === "account") {
        const from = last?.lastSequence ?? 0n;
        const range = rangeSince(now, last, from + 1n);
        const expected = { ...noCounts };
        for (const fate of fateOf.slice(Number(from))) if (fate) expected[fate] += 1n;
        expect(range).toEqual({ ...expected, cursor: now.cursor, countedThrough: now.cursor });
        const lastSequence = BigInt(fateOf.length);
        last = { lastSequence, totals: totalsThrough(now, range, { counts: range, lastSequence }) };
      }
    }
  });
  const send = { do: "send", fate: "stored", count: 1 } as const;
  const account = { do: "account" } as const;
  const restore = { do: "restore", back: 1 } as const;
  const backTwice = [send, account, restore, send, restore, account];
  const givenUpAtItsEnd = [
    send,
    { do: "give up", count: 1 } as const,
    account,
    restore,
    send,
    account,
  ];
  fc.assert(property, { numRuns: 500, examples: [[backTwice], [givenUpAtItsEnd]] });
});
