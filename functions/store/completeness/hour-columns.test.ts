import { expect, it, vi } from "vitest";
import { storeHours } from "#functions/domain/completeness/settle-hours.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import { sumHour } from "#proto/completeness/hour-accounts.ts";
import { type HourState, hourStates } from "#proto/completeness/hour-state.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createHourColumns, type HourColumns } from "./hour-columns.ts";
import { findMatchingHosts, type HourFilter, type MatchingHost } from "./report.ts";

const test = await useTestCore();
const { db, clock } = test;
const first = clock.now() - (clock.now() % dayMs) - 4 * dayMs;
// Names whose order by bytes is not that of UTF-16 units, and one host that has no hour of most states.
const hosts = Array.from(
  { length: 40 },
  (_, at) => `${["a", "é", "\u{1f600}", "\u{ffee}"][at % 4]}-${at}`,
);

const settle = (hours: readonly (readonly [host: string, hour: number, state: HourState])[]) =>
  db.transaction((tx) =>
    storeHours(
      tx,
      hours.map(([host, hour, state]) => {
        const at = first + hour * hourMs;
        return {
          host,
          hourStartMs: at,
          accounts: [],
          sums: sumHour(at, []),
          status: { state, shortages: [], binding: [], isClockWrong: false },
        };
      }),
    ),
  );
const stateAt = (at: number, hour: number) =>
  hour % 24 === 5 || at % 3 === 0 ? (hourStates[(at * 7 + hour * 5) % 5] as HourState) : "complete";
await settle(
  hosts.flatMap((host, at) =>
    // The last ones came late, or left early.
    Array.from({ length: 75 }, (_, hour) => [host, hour, stateAt(at, hour)] as const).filter(
      ([, hour]) => (at < 30 || hour > at) && (at !== 7 || hour < 20),
    ),
  ),
);

const columns = createHourColumns({ db, clock });
const range = (from: number, to: number) => ({
  fromMs: first + from * hourMs,
  toMs: first + to * hourMs,
  host: null,
});
const filters: HourFilter[] = [
  { ...range(0, 96), states: ["complete"] },
  { ...range(17, 61), states: ["complete", "short"] },
  { ...range(29, 30), states: ["undelivered"] },
  { ...range(-30, 40), states: hourStates },
  { ...range(80, 96), states: ["complete"] },
];
const pagesOf = async (filter: HourFilter, from?: HourColumns) => {
  const pages: unknown[] = [];
  for (let after: MatchingHost | null | undefined; after !== null; ) {
    const wanted = { after: after ?? null, limit: 7 };
    if (from) await vi.waitUntil(() => from.find(filter, wanted));
    const page = await findMatchingHosts(db, filter, wanted, from);
    pages.push(page);
    after = page.next;
  }
  return pages;
};
const expectSame = async () => {
  for (const filter of filters)
    expect(await pagesOf(filter, columns)).toEqual(await pagesOf(filter));
};

it("have the hosts, hours and totals of the database, page by page", async () => {
  expect(await pagesOf(filters[0] as HourFilter)).toHaveLength(5);
  await expectSame();
});

it("are read again once hours have changed, also if as many hosts have each state as before", async () => {
  const swapped = [hosts[1] as string, hosts[2] as string] as const;
  await settle([
    [swapped[0], 30, "short"],
    [swapped[1], 30, "complete"],
  ]);
  await expectSame();
  await settle([
    [swapped[0], 30, "complete"],
    [swapped[1], 30, "short"],
  ]);
  await expectSame();
  await settle([["a new host", 74, "complete"]]);
  await expectSame();
});

it("are not waited for at first", async () => {
  const filter = filters[0] as HourFilter;
  const unused = createHourColumns({ db, clock });
  expect(await unused.find(filter, { after: null, limit: 7 })).toBeUndefined();
  const page = await findMatchingHosts(db, filter, { after: null, limit: 7 }, unused);
  expect(await vi.waitUntil(() => unused.find(filter, { after: null, limit: 7 }))).toEqual(page);
});

it("are read for the days that changed alone, and freed after five minutes without a call", async () => {
  const execute = vi.spyOn(db, "execute");
  const page = { after: null, limit: 7 };
  const statements = async () => {
    execute.mockClear();
    const found = await columns.find(filters[0] as HourFilter, page);
    return found && execute.mock.calls.length;
  };
  expect(await statements()).toBe(1);
  await settle([[hosts[1] as string, 50, "late"]]);
  expect(await statements()).toBe(2);
  await clock.advance(4 * 60_000);
  expect(await statements()).toBe(1);
  await clock.advance(4 * 60_000);
  expect(await statements()).toBe(1);
  await clock.advance(11 * 60_000);
  expect(await statements()).toBeUndefined();
  execute.mockRestore();
});
