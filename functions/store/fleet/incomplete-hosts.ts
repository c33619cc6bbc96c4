import { type SQL, sql } from "drizzle-orm";
import { dayMs, hourMs } from "#kit/clock.ts";
import { byteOfState, incompleteStates } from "#proto/completeness/hour-note.ts";
import { hourStates } from "#proto/completeness/hour-state.ts";

/** What `translate` removes of states written by `escape`: those that are complete, and `\\000` for an hour that is not decided. */
const others = `\\0${hourStates
  .filter((state) => !incompleteStates.includes(state))
  .map((state) => String.fromCharCode(byteOfState(state)))
  .join("")}`;

/** The day of the first hour that begins at a time or later, and the place of that hour in the states of its day. */
const firstHour = (sinceMs: number): { day: number; place: number } => {
  const from = Math.ceil(sinceMs / hourMs) * hourMs;
  const day = Math.floor(from / dayMs);
  return { day, place: (from - day * dayMs) / hourMs + 1 };
};

const incompleteFrom = (place: SQL): SQL =>
  sql`length(translate(encode(substring(d.states from ${place}), 'escape'), ${others}::text, ''))`;

/** The ids of hosts with an incomplete hour that begins at a time or later: found by an index, once for the statement. */
export const hostsIncompleteSince = (sinceMs: number): SQL => {
  const { day, place } = firstHour(sinceMs);
  return sql`select h.identity_id from completeness_day d join fleet_host h on h.identity = d.host_id collate "C"
    where d.incomplete_hours > 0 and (d.day > ${day}::int
      or (d.day = ${day}::int and ${incompleteFrom(sql`${place}::int`)} > 0))`;
};

const incompleteSum = ({ day, place }: { day: number; place: number }): SQL =>
  sql`sum(${incompleteFrom(sql`case d.day when ${day}::int then ${place}::int else 1 end`)})::int`;

/** The number of a host's incomplete hours that begin at a time or later; null if none of its hours is settled. */
export const incompleteHoursOf = (identity: SQL, sinceMs: number): SQL => {
  const first = firstHour(sinceMs);
  return sql`(select ${incompleteSum(first)} from completeness_day d where d.host_id = ${identity} and d.day >= ${first.day}::int)`;
};

/** The same of every host that has one, with its `host_id`, as `hours`. */
export const incompleteHoursByHost = (sinceMs: number): SQL => {
  const first = firstHour(sinceMs);
  return sql`select d.host_id collate "C" as host_id, ${incompleteSum(first)} as hours from completeness_day d
    where d.incomplete_hours > 0 and d.day >= ${first.day}::int group by d.host_id`;
};
