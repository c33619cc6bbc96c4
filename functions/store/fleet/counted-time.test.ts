import { sql } from "drizzle-orm";
import fc from "fast-check";
import { expect, it } from "vitest";
import { useTestDatabase } from "#tests/support/database.ts";
import { column } from "./columns/expression.ts";
import {
  countedAfter,
  countedAfterColumn,
  countedBefore,
  uncountedSeconds,
} from "./counted-time.ts";

const database = await useTestDatabase();
const { db } = database.connect();

const start = Date.UTC(2026, 5, 1, 12);
const at = (seconds: number) => new Date(start + seconds * 1000);
const outage = (beganAt: number, endedAt: number, returnSeconds = 96) => ({
  beganAt: at(beganAt),
  endedAt: at(endedAt),
  countedFrom: at(endedAt + returnSeconds),
});
const ongoing = (beganAt: number) => ({
  beganAt: at(beganAt),
  endedAt: null,
  countedFrom: null,
});

it("counts no time in which core could not receive, nor in which hosts come back", () => {
  const outages = [outage(100, 180), outage(250, 270)];
  expect(countedBefore(at(400), 180, outages)).toEqual(at(400 - 180 - (366 - 100)));
  expect(countedBefore(at(300), 50, outages)).toEqual(at(50));
  expect(countedAfter(start, 180, outages)).toBe(at(180 + 266).getTime());
  expect(countedAfter(at(366).getTime(), 180, outages)).toBe(at(546).getTime());
  expect(uncountedSeconds(start, at(300).getTime(), outages)).toBe(200);
  expect(countedAfter(start, 180, [ongoing(100)])).toBe(Number.POSITIVE_INFINITY);
  expect(countedBefore(at(9_000), 180, [ongoing(100)])).toEqual(at(100 - 180));
});

const seconds = fc.integer({ min: 0, max: 2_000 });
const outagesArbitrary = fc
  .array(fc.tuple(seconds, fc.integer({ min: 1, max: 300 }), fc.integer({ min: 0, max: 100 })), {
    maxLength: 5,
  })
  .map((all) => all.map(([beganAt, length, back]) => outage(beganAt, beganAt + length, back)));

it("decides with one timestamp for all hosts what it decides for each, in SQL as in TypeScript", async () => {
  await fc.assert(
    fc.asyncProperty(
      outagesArbitrary,
      fc.option(seconds),
      fc.integer({ min: 1, max: 400 }),
      seconds,
      async (ended, lasting, threshold, now) => {
        const outages = lasting === null ? ended : [...ended, ongoing(lasting)];
        const before = countedBefore(at(now), threshold, outages).getTime();
        const times = Array.from({ length: 60 }, (_, index) => at(index * 41 + 0.5).getTime());
        for (const time of times.filter((each) => each < at(now).getTime()))
          expect(countedAfter(time, threshold, outages) < at(now).getTime()).toBe(time < before);
        const list = sql.join(
          times.map((time) => sql`(${new Date(time).toISOString()}::timestamptz)`),
          sql`, `,
        );
        const rows = await db.execute<{ ms: number }>(
          sql`select extract(epoch from ${countedAfterColumn(column("t"), threshold, outages)})::float8 * 1000 as ms
            from (values ${list}) as v (t) order by t`,
        );
        expect(rows.map(({ ms }) => Math.round(ms))).toEqual(
          times.map((time) => countedAfter(time, threshold, outages)),
        );
      },
    ),
    { numRuns: 60 },
  );
});
