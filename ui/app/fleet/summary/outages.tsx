import { type JSX, Show } from "solid-js";
import type { OutageView } from "#proto/values.ts";
import { useUpdates } from "#ui/app/api/live-report.tsx";
import { Icon } from "#ui/app/design/icon.tsx";
import {
  formatCountOf,
  formatDuration,
  formatTimestamp,
  type TimeZone,
} from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";

/** Formats the length of an outage: 80 s are not rounded to a minute. */
const lengthOf = (from: string, until: string) => {
  const seconds = Math.round((Date.parse(until) - Date.parse(from)) / 1000);
  return seconds < 300 ? `${seconds} s` : formatDuration(seconds);
};

/** Describes when core could not receive, and the effect on the states of hosts. */
const wordsOf = (outages: readonly OutageView[], asOf: number, zone: TimeZone) => {
  const last = outages.at(-1);
  if (last === undefined) return "";
  const earlier = outages.length - 1;
  const others =
    earlier === 0 ? "" : ` ${formatCountOf(earlier, "earlier outage")} in the last 24 hours.`;
  const from = formatTimestamp(last.began_at, zone);
  if (last.ended_at === null || last.counted_from === null)
    return `Core has not been able to receive since ${from}. Silence since then counts against no host.${others}`;
  const what = `${whatHappened(last)} from ${from}.`;
  const left = Math.ceil((Date.parse(last.counted_from) - asOf) / 1000);
  return left > 0
    ? `${what} Hosts have ${formatDuration(left)} left to come back before their silence counts.${others}`
    : `${what} That time counts against no host.${others}`;
};

/** Names the outages of core of the last day; nothing without one. */
export const Outages = (props: { outages: readonly OutageView[] | undefined }) => {
  const { times } = usePageContext();
  const { asOf } = useUpdates();
  /** The silence of hosts counts again. */
  const isOver = () => {
    const countedFrom = props.outages?.at(-1)?.counted_from;
    return countedFrom != null && Date.parse(countedFrom) <= asOf();
  };
  const words = () => wordsOf(props.outages ?? [], asOf(), times.zone());
  return (
    <Show when={words()}>
      <p class="core-outages" classList={{ banner: !isOver() }} role="status">
        <Icon name="info" />
        <span>{words()}</span>
      </p>
    </Show>
  );
};

/** An outage of core as an entry of a host's timeline; `at` is when it began. */
export const OutageEntry = (props: { outage: OutageView; at: JSX.Element }) => (
  <li>
    <p class="quiet">{props.at}</p>
    <p>{whatHappened(props.outage)}</p>
  </li>
);

/** Describes an outage and its length. */
const whatHappened = ({ began_at, ended_at, is_clock_skip }: OutageView) => {
  if (ended_at === null) return "Core cannot receive";
  const length = lengthOf(began_at, ended_at);
  return is_clock_skip
    ? `The database's clock skipped ${length}`
    : `Core could not receive for ${length}`;
};

/** An entry of a timeline. */
export type TimelineEntry<Event> =
  | { event: Event; outage?: never }
  | { outage: OutageView; event?: never };

/**
 * Returns a page of events, newest first, with the outages of core between them: the first page also has those after its first event, and the
 * last page those before its last one. By default the page is the only one.
 */
export const withOutages = <Event,>(
  events: readonly Event[],
  outages: readonly OutageView[] | undefined,
  {
    timeOf,
    isFirst = true,
    isLast = true,
  }: {
    timeOf(event: Event): string;
    isFirst?: boolean;
    isLast?: boolean;
  },
): TimelineEntry<Event>[] => {
  const newest = events[0];
  const oldest = events.at(-1);
  const isShown = ({ began_at }: OutageView) =>
    (isFirst || (newest !== undefined && began_at <= timeOf(newest))) &&
    (isLast || (oldest !== undefined && began_at >= timeOf(oldest)));
  const entries: { at: string; entry: TimelineEntry<Event> }[] = [
    ...events.map((event) => ({ at: timeOf(event), entry: { event } })),
    ...(outages ?? [])
      .filter(isShown)
      .map((outage) => ({ at: outage.began_at, entry: { outage } })),
  ];
  return entries
    .toSorted((a, b) => Number(a.at < b.at) - Number(a.at > b.at))
    .map(({ entry }) => entry);
};
