import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import type { WatchState } from "#proto/watch/vocabulary.ts";
import type { CommonFactor, Watch, WatchEventKind } from "#proto/watch/watch.ts";
import type { ShapeName } from "../design/icon.tsx";
import { factorNames } from "../fleet/factors/factor-view.ts";
import { defaultView, viewPath, withFilter } from "../fleet/view/view-state.ts";
import { formatCount, formatCountOf, formatDuration, plainText } from "../format/format.ts";

/** A state in words and as a shape. */
export const stateMarks: Readonly<Record<WatchState, { words: string; shape: ShapeName }>> = {
  inactive: { words: "Inactive", shape: "check" },
  pending: { words: "Pending", shape: "info" },
  firing: { words: "Firing", shape: "warning" },
};

/** The kinds of events in words. */
export const eventWords: Readonly<Record<WatchEventKind, string>> = {
  firing: "Began to fire",
  resolved: "Ended",
  silenced: "Silenced",
  unsilenced: "Silence ended",
  delivered: "Message delivered",
  dropped: "Message given up",
};

/** Returns what a watch allows: `more than 5 hosts for 10 min`. */
export const thresholdWords = ({
  more_than: hosts,
  for_seconds: seconds,
}: Pick<Watch, "more_than" | "for_seconds">): string =>
  `more than ${formatCountOf(hosts, "host")}${seconds === 0 ? "" : ` for ${formatDuration(seconds)}`}`;

/** Returns the filter of a watch in words. */
export const hostWords = ({ filter }: Pick<Watch, "filter">): string =>
  filter.trim() === "" ? "every host" : plainText(filter);

/** Returns the address of the hosts that a watch counts, as they are now. */
export const hostsPath = ({ filter: query }: Pick<Watch, "filter">, now: number): string => {
  const { filter }: { filter: FleetFilter } = parseQuery(query, new Date(now));
  return viewPath(withFilter(defaultView, filter));
};

/** Returns what the hosts have in common: `17 of them have label region:fra1, and 3 other hosts`. */
export const factorWords = ({ kind, value, selected, others }: CommonFactor): string =>
  `${formatCount(selected)} of them have ${factorNames[kind]} ${plainText(value)}, and ${others === 0 ? "no other host" : formatCountOf(others, "other host")}`;
