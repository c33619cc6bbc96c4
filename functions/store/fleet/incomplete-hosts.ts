import { type SQL, sql } from "drizzle-orm";
import { dayMs, hourMs } from "../../../kit/clock.ts";
import { byteOfState, incompleteStates } from "../../../proto/completeness/hour-note.ts";
import { hourStates } from "../../../proto/completeness/hour-state.ts";

/** What `translate` removes of states written by `escape`: those that are complete, and `\000` for an hour that is not decided. */
const others = `\\0${hourStates
  .filter((state) => !incompleteStates.includes(state))
  .map((state) => String.fromCharCode(byteOfState(state)))
  .join("")}`;

/** The ids of hosts with an incomplete hour that begins at a time or later: found by an index, once for the statement. */
export const hostsIncompleteSince = (sinceMs: number): SQL => {
  const from = Math.ceil(sinceMs / hourMs) * hourMs;
  const day = Math.floor(from / dayMs);
  const first = (from - day * dayMs) / hourMs + 1;
  return sql`select h.identity_id from completeness_day d join fleet_host h on h.identity = d.host_id collate "C"
    where d.incomplete_hours > 0 and (d.day > ${day}::int
      or (d.day = ${day}::int and length(translate(encode(substring(d.states, ${first}::int), 'escape'), ${others}::text, '')) > 0))`;
};
