import type { FleetSummaryView } from "../../../../proto/fleet-health/report.ts";
import { changeFilter, type FleetFilter } from "../query-language/filter.ts";

/** One figure of the truth line: what is counted, in which words, and the filter that finds it; the whole fleet by an empty one. */
export interface TruthPart {
  count: Exclude<keyof FleetSummaryView, "by_state">;
  words: string;
  finds: FleetFilter;
}

/** The figures, in the order in which each is a part of the one before, and what should worry. */
export const truthParts: readonly TruthPart[] = [
  { count: "enrolled", words: "enrolled", finds: {} },
  { count: "active_recent_heartbeats", words: "heartbeating", finds: { heartbeat: "recent" } },
  { count: "forwarding", words: "forwarding", finds: { forwarding: "ever" } },
  { count: "never_forwarded", words: "heartbeat but never forwarded", finds: { forwarding: "never" } },
];

const namesOf = (filter: FleetFilter) => Object.keys(filter) as (keyof FleetFilter)[];

/** Whether a filter finds this part alone, whatever else it asks for. */
export const holdsPart = (filter: FleetFilter, { finds }: TruthPart): boolean =>
  namesOf(finds).length > 0 && namesOf(finds).every((name) => filter[name] === finds[name]);

/** The filter with a part added, or taken away if it holds; the part that is the whole fleet takes all away. */
export const togglePart = (filter: FleetFilter, part: TruthPart): FleetFilter => {
  if (namesOf(part.finds).length === 0) return {};
  if (!holdsPart(filter, part)) return { ...filter, ...part.finds };
  return changeFilter(filter, Object.fromEntries(namesOf(part.finds).map((name) => [name, undefined])));
};
