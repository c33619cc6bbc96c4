/**
 * The states of hosts' hours in core's memory, a day at a time, while somebody asks for states that most hours have. Invariants: a day has
 * every change that was committed before the call: a transaction that changes its rows writes the rows of its hours in `completeness_hour`,
 * whose `xmin` is then another one; a host keeps its place.
 */
import { sql } from "drizzle-orm";
import { type Clock, dayMs, hourMs as hourLengthMs } from "#kit/clock.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import { byteOfState } from "#proto/completeness/hour-note.ts";
import type { Database } from "../database/database.ts";
import { HostIndex } from "../fleet/columns/host-index.ts";
import { timestampAt } from "../fleet/rows.ts";
import { dayAt } from "./days.ts";
import type { HourFilter, MatchingHost, MatchingPage } from "./report.ts";

/** The states of hours in core's memory. */
export interface HourColumns {
  /**
   * Returns a page of the hosts with hours that match, those with the most first; undefined while the days are being loaded, which begins with
   * the first call. `host` of the filter must be null.
   */
  find(
    filter: HourFilter,
    page: { after: MatchingHost | null; limit: number },
  ): Promise<MatchingPage | undefined>;
}

/** The rows of a day. */
interface LoadedDay {
  /** Of the hours in the database. */
  version: string;
  places: Uint32Array;
  /** 24 bytes a host, in words, in the order of `places`. */
  words: Uint32Array;
}

/** More days than that take longer to load than to count in the database. */
const awaitedDaysMax = 2;
/** Without a call for so long, the memory is freed. */
const idleMs = 300_000;
const wordsPerRow = 6;

/** Creates the columns, still empty. Days are loaded again once they changed. */
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
    const [row] = await db.execute<{ hosts: string[] | null; states: Uint8Array | null }>(sql`
      select json_agg(host_id) as hosts, string_agg(states, ''::bytea) as states from completeness_day where day = ${day}::int`);
    const places = Uint32Array.from(
      row?.hosts ?? [],
      (host) => index.placeOf(host) ?? index.add(host, host),
    );
    // A copy: the driver's bytes may begin at any place of their buffer.
    const words = new Uint32Array(new Uint8Array(row?.states ?? []).buffer);
    days.set(day, { version, places, words });
  };
  const loadDays = async (due: ReadonlyMap<number, string>) => {
    for (const [day, version] of due) await loadDay(day, version);
  };
  /** Returns whether the days are loaded. */
  const refresh = shareNextRun(
    async ({ from, to }: { from: number; to: number }) => {
      const start = new Date(from * dayMs);
      const end = new Date((to + 1) * dayMs);
      // Another server may use the numbers of transactions again.
      const rows = await db.execute<{ day: number; version: string }>(sql`
        select (extract(epoch from date_trunc('day', hour, 'UTC')) / 86400)::int as day,
          pg_postmaster_start_time()::text || string_agg(xmin::text, ' ' order by hour) as version
        from completeness_hour where hour >= ${timestampAt(start)} and hour < ${timestampAt(end)} group by 1`);
      const versions = new Map(rows.map(({ day, version }) => [day, version]));
      for (let day = from; day <= to; day++) if (!versions.has(day)) days.delete(day);
      const due = new Map(
        [...versions].filter(([day, version]) => days.get(day)?.version !== version),
      );
      if (due.size <= awaitedDaysMax) await loadDays(due);
      // A failure shows in the call after this one.
      else
        loading ??= loadDays(due)
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

/** Counts the hours that match of each host, by place. */
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
    const first = Math.max(0, fromMs / hourLengthMs - day * 24);
    const until = Math.min(24, toMs / hourLengthMs - day * 24);
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

const areEqual = (words: Uint32Array, one: number, other: number) => {
  for (let at = 0; at < wordsPerRow; at++)
    if (words[one * wordsPerRow + at] !== words[other * wordsPerRow + at]) return false;
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
  const left = new Uint32Array(most + 1);
  for (let nth = 0; nth < order.length; nth++) {
    const count = hours[order[nth] as number] as number;
    if (count > 0) total++;
    if (isAfter(count, nth)) left[count] = (left[count] as number) + 1;
  }
  // The least hours of a host of the page, and how many hosts it has of those.
  let least = most;
  let room = limit + 1;
  while (least > 1 && (left[least] as number) < room) room -= left[least--] as number;
  const found: MatchingHost[] = [];
  for (let nth = 0; nth < order.length; nth++) {
    const place = order[nth] as number;
    const count = hours[place] as number;
    if (isAfter(count, nth) && (count > least || (count === least && room-- > 0)))
      found.push({ host: index.ids[place] as string, hours: count });
  }
  // A stable sort: hosts with as many hours stay in their order.
  found.sort((a, b) => b.hours - a.hours);
  const rows = found.slice(0, limit);
  return { rows, total, next: found.length > limit ? (rows.at(-1) ?? null) : null };
};
