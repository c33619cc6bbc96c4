import { type SQL, sql } from "drizzle-orm";
import { dayMs, hourMs } from "#kit/clock.ts";
import {
  byteOfState,
  type HourState,
  hourStates,
  incompleteStates,
  recordShortages,
  shortageKinds,
} from "#proto/completeness/hour-state.ts";
import type { Executor } from "../database/database.ts";
import {
  asIs,
  firstRow,
  orNull,
  type RowOf,
  readRows,
  readScalars,
  texts,
  timestamptz,
} from "../database/statements.ts";
import { dayAt } from "./days.ts";
import type { HourColumns } from "./hour-columns.ts";

/** Whole hours, in milliseconds since the Unix epoch. */
export interface HourRange {
  fromMs: number;
  toMs: number;
}

/** Selects hours of hosts. */
export interface HourFilter extends HourRange {
  states: readonly HourState[];
  /** An identity or a device id. */
  host: string | null;
}

/** A host, and the number of its hours that match a filter. */
export interface MatchingHost {
  host: string;
  hours: number;
  /** Its loss, if only incomplete hours are asked for: the records that its short hours lack, and one more; 0 without a short one. */
  loss: number;
}

/** A page of matching hosts, and the number of all of them. */
export interface MatchingPage {
  rows: MatchingHost[];
  total: number;
  next: MatchingHost | null;
}

/** A day with 24 complete hours, in hex. */
const completeDay = String(byteOfState("complete")).padStart(2, "0").repeat(24);

/**
 * Counts the bytes of a row's `states` that match within the range. A row whose day lies within the range stores the count for the usual
 * states; most hosts are complete all day, for which one comparison suffices. `escape` writes bytes from 1 to 8 as they are, and 0 as
 * `\000`; `translate` removes the others.
 */
const matchingHours = ({ fromMs, toMs, states }: HourFilter): SQL => {
  const others = hourStates
    .filter((state) => !states.includes(state))
    .map((state) => String.fromCharCode(byteOfState(state)));
  const first = dayAt(fromMs);
  const last = dayAt(toMs - 1);
  const skipped = (fromMs - first * dayMs) / hourMs;
  const until = (toMs - last * dayMs) / hourMs;
  const start = sql`(case day when ${first}::int then ${skipped}::int else 0 end)`;
  const end = sql`(case day when ${last}::int then ${until}::int else 24 end)`;
  const decoded = sql`length(translate(encode(substring(states from ${start} + 1 for ${end} - ${start}), 'escape'), ${`\\0${others.join("")}`}, ''))`;
  const ofComplete = states.includes("complete") ? sql`${end} - ${start}` : sql`0`;
  const counted = sql`case when states = decode(${completeDay}, 'hex') then ${ofComplete} else ${decoded} end`;
  return areUsual(states)
    ? sql`case when day > ${first}::int and day < ${last}::int then incomplete_hours else ${counted} end`
    : counted;
};

const areUsual = (states: readonly HourState[]) =>
  states.length === incompleteStates.length &&
  states.every((state) => incompleteStates.includes(state));

/** Of more short hosts the loss takes too long to add up: all of them come first, those with the most hours before others. */
const lossHostsMax = 500;
const byteOfShort = byteOfState("short");
/** The places in `shortageKinds` of those that count records. */
const recordKinds = shortageKinds.flatMap((kind, index) =>
  recordShortages.includes(kind) ? index : [],
);

/** Adds up the loss of a host of `found`. */
const lossOf = ({ fromMs, toMs }: HourRange): SQL => sql`(
  select least(count(*), 1) + coalesce(sum(records), 0) from completeness_day d
  cross join jsonb_each(d.details::jsonb) n (at, note)
  cross join lateral (select sum((part ->> 1)::bigint) as records
    from jsonb_array_elements(note) with ordinality s (part, place)
    where place > 2 and (part ->> 0)::int = any (${`{${recordKinds.join(",")}}`}::int[])) lost
  where d.host_id = found.host_id collate "default" and d.day between ${dayAt(fromMs)}::int and ${dayAt(toMs - 1)}::int
    and get_byte(states, at::int) = ${byteOfShort}::int
    and day * 24 + at::int >= ${fromMs / hourMs}::int and day * 24 + at::int < ${toMs / hourMs}::int)`;

/**
 * Finds a page of hosts with matching hours: those with the largest loss first, then those with the most hours. On most days most hosts have
 * states that need no attention: for these, `columns` count in core's memory once they are loaded.
 */
export const findMatchingHosts = async (
  db: Executor,
  filter: HourFilter,
  { after, limit }: { after: MatchingHost | null; limit: number },
  columns?: HourColumns,
): Promise<MatchingPage> => {
  const { fromMs, toMs, states, host } = filter;
  const where = [sql`day between ${dayAt(fromMs)}::int and ${dayAt(toMs - 1)}::int`];
  const areIncomplete = states.every((state) => incompleteStates.includes(state));
  const isShort =
    areIncomplete && states.includes("short")
      ? sql`bool_or(position(decode(${`0${byteOfShort}`}, 'hex') in states) > 0)`
      : sql`false`;
  if (areIncomplete) where.push(sql`incomplete_hours > 0`);
  else if (columns && host === null) {
    const page = await columns.find(filter, { after, limit });
    if (page) return page;
  }
  if (host !== null)
    where.push(
      sql`host_id in (select ${host} union all select identity from fleet_host where device_id = ${host})`,
    );
  const beyond =
    after === null
      ? sql`true`
      : sql`((loss, hours) < (${after.loss}::bigint, ${after.hours}::int)
          or (loss, hours) = (${after.loss}::bigint, ${after.hours}::int) and host_id > ${after.host})`;
  const rows = await readRows(
    db,
    { host: String, hours: Number, loss: Number, total: Number },
    sql`
    with matching as materialized (
      select host_id collate "C" as host_id, sum(${matchingHours(filter)})::int as hours, ${isShort} as is_short from completeness_day
      where ${sql.join(where, sql` and `)} group by completeness_day.host_id),
    found as (select * from matching where hours > 0),
    ranked as (select host_id, hours, case when not is_short then 0
      when (select count(*) from found where is_short) > ${lossHostsMax}::int then 1 else ${lossOf(filter)} end as loss from found)
    select host_id as host, hours, loss, (select count(*) from found) as total from ranked where ${beyond}
    order by loss desc, hours desc, host_id limit ${limit + 1}`,
  );
  const page = rows.slice(0, limit).map(({ total, ...host }) => host);
  return {
    rows: page,
    total: rows[0]?.total ?? 0,
    next: rows.length > limit ? (page.at(-1) ?? null) : null,
  };
};

/** The number of hosts in each state in an hour. */
export interface FleetHourCounts {
  hourStartMs: number;
  hosts: Map<HourState, number>;
  /** The first hour of the trouble that it is of; null unless it is incomplete. */
  incompleteFromMs: number | null;
}

/** Finds the counts of settled hours, the oldest first. */
export const findHourCounts = async (
  db: Executor,
  { fromMs, toMs }: HourRange,
): Promise<FleetHourCounts[]> => {
  const rows = await readRows(
    db,
    { hourStartMs: Date.parse, hosts: asIs<number[]>, incompleteFromMs: orNull(Date.parse) },
    sql`
    select hour as hour_start_ms, array_to_json(hosts) as hosts, incomplete_from as incomplete_from_ms from completeness_hour
    where hour >= ${timestamptz(fromMs)} and hour < ${timestamptz(toMs)} order by hour`,
  );
  return rows.map(({ hosts, ...hour }) => ({
    ...hour,
    hosts: new Map(hourStates.map((state, index) => [state, hosts[index] ?? 0])),
  }));
};

/** The names of an enrolled host, and the time in which it was enrolled. */
export type EnrolledHost = RowOf<typeof enrolledHost>;
const enrolledHost = {
  identity: String,
  identityId: String,
  deviceId: String,
  enrolledMs: Date.parse,
  /** Infinite if it is not revoked. */
  revokedMs: (at: string | null) => (at === null ? Number.POSITIVE_INFINITY : Date.parse(at)),
};

/** Finds enrolled hosts by their identities, or by the id of one. */
export const findEnrolledHosts = async (
  db: Executor,
  by: { identities: readonly string[] } | { identityId: string },
): Promise<Map<string, EnrolledHost>> => {
  const condition =
    "identities" in by
      ? sql`identity = any(${texts(by.identities)})`
      : sql`id = ${by.identityId}::uuid`;
  const rows = await readRows(
    db,
    enrolledHost,
    sql`
    select identity, id as identity_id, device_id, enrolled_at as enrolled_ms, revoked_at as revoked_ms
    from collector_identity where ${condition}`,
  );
  return new Map(rows.map((row) => [row.identity, row]));
};

/** Returns the identity of the enrolled host with the device id `name`, if there is exactly one; otherwise `name` itself. */
export const findHostNamed = async (db: Executor, name: string): Promise<string> => {
  const query = sql`select identity from fleet_host where device_id = ${name} limit 2`;
  const [identity = name, another] = await readScalars(db, String, query);
  return another === undefined ? identity : name;
};

/** Finds the identity of a host by its id. */
export const findIdentityOf = (db: Executor, identityId: string): Promise<string | undefined> =>
  firstRow(
    readScalars(
      db,
      String,
      sql`select identity from collector_identity where id = ${identityId}::uuid`,
    ),
  );
