import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import {
  changeFilter,
  type FleetFilter,
  filterToParams,
  selectsEveryHost,
} from "#proto/fleet-health/filter.ts";
import { narrowFilter } from "#proto/fleet-health/narrow-filter.ts";
import type { FleetSummaryView } from "#proto/fleet-health/report.ts";
import { type FleetState, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import type { FleetValues } from "../query-language/suggest.ts";

/** One figure of the summary: its count, its words, and the filter that finds the same hosts; empty for the whole fleet. */
export interface SummaryFigure {
  count: Exclude<keyof FleetSummaryView, "by_state">;
  words: string;
  filter: FleetFilter;
}

/** The figures in order, the last two are those to worry about. */
export const summaryFigures: readonly SummaryFigure[] = [
  { count: "enrolled", words: "enrolled", filter: {} },
  { count: "active_recent_heartbeats", words: "heartbeating", filter: { heartbeat: ["recent"] } },
  { count: "forwarding", words: "forwarding", filter: { forwarding: ["forwarding"] } },
  { count: "stopped", words: "stopped forwarding", filter: { forwarding: ["stopped"] } },
  {
    count: "never_forwarded",
    words: "heartbeat but never forwarded",
    filter: { forwarding: ["never"] },
  },
];

const equals = (one: FleetFilter, other: FleetFilter) =>
  filterToParams(one).toString() === filterToParams(other).toString();

/**
 * Returns the filter whose rows a figure counts under `filter`: the summary ignores its states, so they are dropped. Undefined where the
 * filter excludes them all.
 */
export const filterOfFigure = (
  filter: FleetFilter,
  figure: SummaryFigure,
): FleetFilter | undefined =>
  narrowFilter(changeFilter(filter, { states: undefined }), figure.filter);

/** Returns the words of a figure under `filter`: it counts the enrolled hosts that match, which are not the whole fleet. */
export const figureWords = (filter: FleetFilter, { count, words }: SummaryFigure): string =>
  count === "enrolled" && !selectsEveryHost(changeFilter(filter, { states: undefined }))
    ? "matching"
    : words;

/** Reports whether the rows of `filter` are those that a figure counts; never for the whole fleet, which is no filter of its own. */
export const isFigureShown = (filter: FleetFilter, figure: SummaryFigure): boolean => {
  const own = filterOfFigure(filter, figure);
  return Object.keys(figure.filter).length > 0 && own !== undefined && equals(own, filter);
};

/** Returns the filter of a click on a figure: its rows or, where they are shown, those of the filter without it. */
export const toggleFigure = (
  filter: FleetFilter,
  figure: SummaryFigure,
): FleetFilter | undefined =>
  isFigureShown(filter, figure)
    ? changeFilter(
        filter,
        Object.fromEntries(Object.keys(figure.filter).map((part) => [part, undefined])),
      )
    : filterOfFigure(filter, figure);

/**
 * Returns the filter of a click on the chip of a state: the hosts that it counts under the other filters or, where they are shown, those
 * of the other filters.
 */
export const toggleState = (filter: FleetFilter, state: FleetState): FleetFilter => {
  const isShown = filter.states?.length === 1 && filter.states[0] === state;
  return changeFilter(filter, { states: isShown ? undefined : [state] });
};

/** Returns how many hosts are in any of these states, or in all; 0 while the summary loads. */
export const hostsInStates = (
  summary: FleetSummaryView | undefined,
  states: readonly FleetState[] = fleetStates,
): number => states.reduce((sum, state) => sum + (summary?.by_state[state] ?? 0), 0);

/** Returns the values to suggest for a query: those of the summary and the facets that are there. */
export const fleetValues = (
  summary: FleetSummaryView | undefined,
  facets: FleetFacets | undefined,
): FleetValues => ({
  ...(summary ? { states: summary.by_state } : {}),
  ...(facets
    ? {
        drift: facets.drift,
        versions: facets.versions,
        platforms: facets.platforms,
        labels: facets.labels,
      }
    : {}),
});
