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

const counts = (stored: bigint, rest: Partial<RangeCounts> = {}): RangeCounts => ({
  ...noCounts,
  stored,
  ...rest,
});
const queue = (
  cursor: bigint,
  totals: RangeCounts | null,
  rest: Partial<CountedQueue> = {},
): CountedQueue => ({
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
  { weight: 3, arbitrary: fc.record({ do: fc.constant("account" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("restore" as const), back: fc.nat(5) }) },
);

it("is what became of the account's own sequences, however often the stream goes back between two accounts", () => {
  const property = fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
    let now: CountedQueue = queue(0n, noCounts);
    const states: CountedQueue[] = [now];
    const fateOf: (keyof RangeCounts)[] = [];
    let last: SettledAccount | undefined;
    for (const one of steps) {
      if (one.do === "send") {
        const count = BigInt(one.count);
        fateOf.push(...Array.from({ length: one.count }, () => one.fate));
        const totals = addTotals(now.totals ?? noCounts, { ...noCounts, [one.fate]: count });
        now = { ...now, cursor: now.cursor + count, totals };
        states.push(now);
      } else if (one.do === "restore") {
        // To an earlier state; the host then states what was acknowledged.
        const acked = now.cursor;
        states.length = Math.max(1, states.length - one.back);
        now = states.at(-1) ?? now;
        if (now.cursor === acked) continue;
        fateOf.fill("lost", Number(now.cursor));
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
        for (const fate of fateOf.slice(Number(from))) expected[fate] += 1n;
        expect(range).toEqual({ ...expected, cursor: now.cursor, countedThrough: now.cursor });
        last = {
          lastSequence: now.cursor,
          totals: totalsThrough(now, range, { counts: range, lastSequence: now.cursor }),
        };
      }
    }
  });
  const send = { do: "send", fate: "stored", count: 1 } as const;
  const account = { do: "account" } as const;
  const restore = { do: "restore", back: 1 } as const;
  const backTwice = [send, account, restore, send, restore, account];
  fc.assert(property, { numRuns: 500, examples: [[backTwice]] });
});
