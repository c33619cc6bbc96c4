/**
 * Keeps the states of hosts' hours in core's memory, by day, while callers ask for states that most hours have. Invariants:
 * - A day has every change that was committed before the call: a transaction that changes its rows also writes its rows of
 *   `completeness_hour`, which changes their `xmin`.
 * - A host keeps its index.
 */
import { sql } from "drizzle-orm";
import { type Clock, dayMs, hourMs } from "#kit/clock.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { byteOfState } from "#proto/completeness/hour-state.ts";
import type { Database } from "../database/database.ts";
import { asIs, readOne, readRows, timestamptz } from "../database/statements.ts";
import { HostIndex } from "../fleet/columns/host-index.ts";
import { dayAt } from "./days.ts";
import type { HourFilter, MatchingHost, MatchingPage } from "./report.ts";

/** The states of hours in core's memory. */
export interface HourColumns {
  /**
   * Returns a page of the hosts with matching hours, those with the most first; undefined while the days are loading, which the first call
   * starts. `host` of the filter must be null.
   */
  find(
    filter: HourFilter,
    page: { after: MatchingHost | null; limit: number },
  ): Promise<MatchingPage | undefined>;
}

/** The rows of a day. */
interface LoadedDay {
  /** Of the database's rows of its hours. */
  version: string;
  places: Uint32Array;
  /** 24 bytes for each host, as 32-bit words, in the order of `places`. */
  words: Uint32Array;
}

/** More days take longer to load than to count in the database. */
const awaitedDaysMax = 2;
/** The memory is freed after this time without a call. */
const idleMs = 300_000;
const wordsPerRow = 6;

/** Creates the columns, empty at first. Loads days again when they have changed. */
export const createHourColumns = ({
  db,
  clock,
  stopping,
}: {
  db: Pick<Database, "execute">;
  clock: Pick<Clock, "monotonic" | "sleep">;
  /** Aborts when core stops. */
  stopping?: AbortSignal;
}): HourColumns => {
  let index = new HostIndex();
  let days = new Map<number, LoadedDay>();
  let usedAt: number | undefined;
  let loading: Promise<void> | undefined;

  const loadDay = async (day: number, version: string) => {
    const { hosts, states } = await readOne(
      db,
      { hosts: asIs<string[] | null>, states: asIs<Uint8Array | null> },
      sql`
      select json_agg(host_id) as hosts, string_agg(states, ''::bytea) as states from completeness_day where day = ${day}::int`,
    );
    const places = Uint32Array.from(
      hosts ?? [],
      (host) => index.placeOf(host) ?? index.add(host, host),
    );
    // A copy: the driver's bytes may begin anywhere in their buffer.
    const words = new Uint32Array(new Uint8Array(states ?? []).buffer);
    days.set(day, { version, places, words });
  };
  const loadDays = async (versions: ReadonlyMap<number, string>) => {
    for (const [day, version] of versions) await loadDay(day, version);
  };
  /** Reports whether the days are loaded. */
  const refresh = shareNextRun(
    async ({ from, to }: { from: number; to: number }) => {
      const start = new Date(from * dayMs);
      const end = new Date((to + 1) * dayMs);
      // Another server may assign the same transaction ids.
      const rows = await readRows(
        db,
        { day: Number, version: String },
        sql`
        select (extract(epoch from date_trunc('day', hour, 'UTC')) / 86400)::int as day,
          pg_postmaster_start_time()::text || string_agg(xmin::text, ' ' order by hour) as version
        from completeness_hour where hour >= ${timestamptz(start)} and hour < ${timestamptz(end)} group by 1`,
      );
      const versions = new Map(rows.map(({ day, version }) => [day, version]));
      for (let day = from; day <= to; day++) if (!versions.has(day)) days.delete(day);
      const changed = new Map(
        [...versions].filter(([day, version]) => days.get(day)?.version !== version),
      );
      if (changed.size <= awaitedDaysMax) await loadDays(changed);
      // The next call throws a failure.
      else
        loading ??= loadDays(changed)
          .catch(() => undefined)
          .finally(() => {
            loading = undefined;
          });
      return loading === undefined;
    },
    ({ from, to }) => `${from} ${to}`,
  );
  const freeWhenIdle = async () => {
    for (let leftMs = idleMs; leftMs > 0; leftMs = (usedAt ?? 0) + idleMs - clock.monotonic())
      await clock.sleep(leftMs, stopping);
    index = new HostIndex();
    days = new Map();
    usedAt = undefined;
  };

  return {
    async find(filter, page) {
      const isFirst = usedAt === undefined;
      usedAt = clock.monotonic();
      if (isFirst) freeWhenIdle().catch(() => undefined);
      if (loading || !(await refresh({ from: dayAt(filter.fromMs), to: dayAt(filter.toMs - 1) })))
        return undefined;
      return firstOf(index, countHours(days, filter, index.ids.length), page);
    },
  };
};

/** Counts the matching hours of each host, by index. */
const countHours = (
  days: ReadonlyMap<number, LoadedDay>,
  { fromMs, toMs, states }: HourFilter,
  hosts: number,
): Uint16Array => {
  const matches = new Uint8Array(256);
  for (const state of states) matches[byteOfState(state)] = 1;
  const counts = new Uint16Array(hosts);
  for (let day = dayAt(fromMs); day <= dayAt(toMs - 1); day++) {
    const loaded = days.get(day);
    if (loaded === undefined) continue;
    const { places, words } = loaded;
    const bytes = new Uint8Array(words.buffer);
    const first = Math.max(0, fromMs / hourMs - day * 24);
    const until = Math.min(24, toMs / hourMs - day * 24);
    let counted = -1;
    let count = 0;
    for (let row = 0; row < places.length; row++) {
      // Most hosts have the same states as the one before.
      if (counted < 0 || !areEqual(words, counted, row)) {
        counted = row;
        count = 0;
        for (let at = row * 24 + first; at < row * 24 + until; at++)
          count += matches[bytes[at] as number] as number;
      }
      const place = places[row] as number;
      counts[place] = (counts[place] as number) + count;
    }
  }
  return counts;
};

const areEqual = (words: Uint32Array, rowA: number, rowB: number) => {
  for (let word = 0; word < wordsPerRow; word++)
    if (words[rowA * wordsPerRow + word] !== words[rowB * wordsPerRow + word]) return false;
  return true;
};

/** Returns the first hosts by their hours and names, after a position. */
const firstOf = (
  index: HostIndex,
  hours: Uint16Array,
  { after, limit }: { after: MatchingHost | null; limit: number },
): MatchingPage => {
  const order = index.order();
  const through = after === null ? 0 : index.through(after.host);
  const most = after?.hours ?? 31 * 24;
  const isAfter = (count: number, nth: number) =>
    count > 0 && (count < most || (count === most && nth >= through));
  let total = 0;
  const hostsByCount = new Uint32Array(most + 1);
  for (let nth = 0; nth < order.length; nth++) {
    const count = hours[order[nth] as number] as number;
    if (count > 0) total++;
    if (isAfter(count, nth)) hostsByCount[count] = (hostsByCount[count] as number) + 1;
  }
  // The fewest hours of a host of the page, and how many hosts of the page have as few.
  let least = most;
  let room = limit + 1;
  while (least > 1 && (hostsByCount[least] as number) < room)
    room -= hostsByCount[least--] as number;
  const found: MatchingHost[] = [];
  for (let nth = 0; nth < order.length; nth++) {
    const place = order[nth] as number;
    const count = hours[place] as number;
    if (isAfter(count, nth) && (count > least || (count === least && room-- > 0)))
      found.push({ host: index.ids[place] as string, hours: count, loss: 0 });
  }
  // The sort is stable: hosts with equally many hours stay in their order.
  found.sort((a, b) => b.hours - a.hours);
  const rows = found.slice(0, limit);
  return { rows, total, next: found.length > limit ? (rows.at(-1) ?? null) : null };
};
