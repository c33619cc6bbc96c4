import { Show } from "solid-js";
import { AuditEventPage } from "#proto/audit-event.ts";
import type { Drift } from "#proto/fleet-health/vocabulary.ts";
import type { OutageView } from "#proto/values.ts";
import { createReport } from "../api/live-report.tsx";
import { type QueryParams, withQuery } from "../browser/with-query.ts";
import { Icon } from "../design/icon.tsx";
import { ListPager } from "../design/record-list.tsx";
import { Loaded, Section } from "../design/report-parts.tsx";
import { type TimelineEntry, withOutages } from "../fleet/summary/outages.tsx";
import { usePageContext } from "../session/page-context.tsx";
import { auditExportPath, auditPath, eventsPath } from "./audit-view.ts";
import { EventTimeline } from "./event-timeline.tsx";

/** The kinds of events of a record: their filter, and what is said without any. */
const kinds = {
  all: { filter: {}, none: "No events recorded." },
  config: {
    filter: { action: ["config.assign", "config.clear", "config.rollback"] },
    none: "No config was ever assigned.",
  },
  failure: { filter: { outcome: "failure" }, none: "No failure recorded." },
} as const satisfies Record<string, { filter: QueryParams; none: string }>;

/** Events of a kind that are not shown page by page. */
const eventsMax = 5;

/** What came of the newest assignment, by the config that the host reports. */
const outcomes: Readonly<Record<Drift, string>> = {
  in_sync: "The host runs it.",
  drifted: "Not applied: the host runs another config and has reported no rollback.",
  on_last_known_good: "The host could not use it, and runs its last known good config.",
  no_desired: "",
  unknown: "The host has not reported its config.",
};

/** The newest enrollments of the last day that core refused, of hosts with `name` in theirs; nothing without any. */
export const RefusedHosts = (props: { name?: string }) => (
  <RecordEvents
    title="Refused enrollments"
    kind="failure"
    of={{ action: "collector.enroll", within_seconds: 86_400, q: props.name || null }}
  />
);

/** The events of a record, such as a host and its certificates, newest first, as sentences; the timeline of a host page by page. */
export const RecordEvents = (props: {
  id?: string;
  /** Of other hosts: nothing is shown without events. */
  of?: QueryParams;
  title: string;
  /** By default it is a part of a host. */
  level?: "h2";
  kind: keyof typeof kinds;
  cursor?: string | undefined;
  /** The past time that is shown; by default now. */
  until?: string | undefined;
  /** How the host's config relates to the desired one, for the outcome of the newest assignment. */
  drift?: Drift;
  /** Outages of core, which the timeline shows between the events. */
  outages?: readonly OutageView[] | undefined;
}) => {
  const { times } = usePageContext();
  const filter = (): QueryParams => ({
    ...kinds[props.kind].filter,
    target: props.id,
    until: props.until,
    ...props.of,
  });
  const report = createReport({
    schema: AuditEventPage,
    path: () => eventsPath({ ...filter(), cursor: props.cursor }),
    intervalMs: 30_000,
  });
  const items = () => report.current()?.items ?? [];
  const outcomeOf = (index: number, action: string) => {
    if (props.kind !== "config" || action === "config.clear") return undefined;
    const next = items()[index - 1];
    if (next !== undefined) return `Until ${times.text(next.occurred_at)}.`;
    return props.drift && outcomes[props.drift];
  };
  const entriesOf = ({ items, next_cursor }: AuditEventPage) =>
    props.kind === "all"
      ? withOutages(items, props.outages, {
          timeOf: ({ occurred_at }) => occurred_at,
          isFirst: props.cursor === undefined,
          isLast: next_cursor === null,
        })
      : items
          .slice(0, eventsMax)
          .map((event): TimelineEntry<(typeof items)[number]> => ({ event }));
  const hasMore = ({ items, next_cursor }: AuditEventPage) =>
    next_cursor !== null || (props.kind !== "all" && items.length > eventsMax);
  return (
    <Show when={!props.of || items().length}>
      <Section
        id={`host-events-${props.kind}`}
        title={props.title}
        level={props.level ?? (props.of ? "h2" : "h3")}
        tools={
          <>
            <a href={auditPath(filter())}>Show in audit</a>
            <Show when={!props.of}>
              <a href={auditExportPath("csv", filter())} download="">
                <Icon name="export" /> CSV
              </a>
            </Show>
          </>
        }
      >
        <Loaded report={report} what="events">
          {(known) => (
            <Show
              when={entriesOf(known()).length > 0}
              fallback={<p class="quiet">{kinds[props.kind].none}</p>}
            >
              <EventTimeline
                entries={entriesOf(known())}
                names={known().names}
                noteOf={({ action }, index) => outcomeOf(index, action)}
              />
              <Show
                when={props.kind === "all" && !props.level}
                fallback={
                  <Show when={hasMore(known())}>
                    <a href={auditPath(filter())}>Older ones</a>
                  </Show>
                }
              >
                <TimelinePager id={props.id} cursor={props.cursor} page={known()} />
              </Show>
            </Show>
          )}
        </Loaded>
      </Section>
    </Show>
  );
};

const TimelinePager = (props: {
  id: string | undefined;
  cursor: string | undefined;
  page: AuditEventPage;
}) => {
  const pathOf = (cursor?: string) => withQuery(`/hosts/${props.id}`, { cursor });
  return (
    <Show when={props.page.items.length > 0}>
      <ListPager
        label="Pages of the timeline"
        rows={props.page.items.length}
        isContinued={props.cursor !== undefined}
        firstPath={pathOf()}
        nextPath={props.page.next_cursor === null ? undefined : pathOf(props.page.next_cursor)}
        noun="event"
      />
    </Show>
  );
};
