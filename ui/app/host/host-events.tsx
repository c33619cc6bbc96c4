import { createMemo, Show } from "solid-js";
import { Dynamic } from "solid-js/web";
import { AuditEventPage } from "../../../proto/audit-event.ts";
import type { OutageView } from "../../../proto/fleet-health/outage.ts";
import type { Drift } from "../../../proto/fleet-health/vocabulary.ts";
import { createReport } from "../api/live-report.tsx";
import {
  type AuditView,
  auditExportPath,
  auditPath,
  changeView,
  eventsPath,
} from "../audit/audit-view.ts";
import { EventTimeline } from "../audit/event-timeline.tsx";
import { Icon } from "../design/parts.tsx";
import { ListPager } from "../design/records.tsx";
import { Loaded } from "../design/report-parts.tsx";
import { type TimelineEntry, withOutages } from "../fleet/summary/outages.tsx";
import { formatTimestamp } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

const kinds = {
  all: {},
  config: { actions: ["config.assign", "config.clear", "config.rollback"] },
  failure: { outcome: "failure" },
} as const satisfies Record<string, Partial<AuditView>>;

const none = {
  all: "No events recorded.",
  config: "No config was ever assigned.",
  failure: "No failure recorded.",
} as const;

/** What came of the newest assignment, by the config that the host reports. */
const outcomes: Readonly<Record<Drift, string>> = {
  in_sync: "The host runs it.",
  drifted: "The host has not applied it: it runs another config, and has reported no rollback.",
  on_last_known_good:
    "The host reports that it could not use it: it is back on its last known good config.",
  no_desired: "",
  unknown: "The host has not reported its config.",
};

/** The newest enrollments of the last day that core refused, of hosts with `name` in theirs; nothing without any. */
export const RefusedHosts = (props: { name?: string }) => (
  <HostEvents
    title="Refused enrollments"
    kind="failure"
    of={{
      actions: ["collector.enroll"],
      withinSeconds: 86_400,
      ...(props.name && { text: props.name }),
    }}
  />
);

/** The events of a host and its certificates of one kind, newest first, as sentences; the timeline page by page. */
export const HostEvents = (props: {
  id?: string;
  /** Of other hosts: nothing is shown without events. */
  of?: Partial<AuditView>;
  title: string;
  kind: keyof typeof kinds;
  cursor?: string | undefined;
  /** How the host's config relates to the desired one, for the outcome of the newest assignment. */
  drift?: Drift;
  /** Outages of core, which the timeline shows between the events. */
  outages?: readonly OutageView[] | undefined;
}) => {
  const { times } = usePageContext();
  const view = (): AuditView => ({
    actions: [],
    ...kinds[props.kind],
    ...(props.id && { target: props.id }),
    ...props.of,
    ...(props.cursor === undefined ? {} : { cursor: props.cursor }),
  });
  const report = createReport({
    schema: AuditEventPage,
    path: createMemo(() => eventsPath(view())),
    intervalMs: 30_000,
  });
  const page = report.current;
  const hostPath = (cursor?: string | null) =>
    `/hosts/${props.id}${cursor ? `?${new URLSearchParams({ cursor })}` : ""}`;
  const outcomeOf = (index: number, action: string): string | undefined => {
    if (props.kind !== "config" || action === "config.clear") return undefined;
    const next = page()?.items[index - 1];
    if (next !== undefined) return `Until ${formatTimestamp(next.occurred_at, times.zone())}.`;
    return props.drift && outcomes[props.drift];
  };
  const entriesOf = ({ items, next_cursor }: AuditEventPage) =>
    props.kind === "all"
      ? withOutages(items, props.outages, {
          timeOf: ({ occurred_at }) => occurred_at,
          isFirst: props.cursor === undefined,
          isLast: next_cursor === null,
        })
      : items.slice(0, 5).map((event): TimelineEntry<(typeof items)[number]> => ({ event }));
  const titleId = () => `host-events-${props.kind}`;
  return (
    <Show when={!props.of || page()?.items.length}>
      <section class="page-section" aria-labelledby={titleId()}>
        <div class="page-tools">
          <Dynamic component={props.of ? "h2" : "h3"} id={titleId()}>
            {props.title}
          </Dynamic>
          <div class="page-tools-end">
            <a href={auditPath(changeView(view(), {}))}>Show in audit</a>
            <Show when={!props.of}>
              <a href={auditExportPath("csv", view())} download="">
                <Icon name="export" /> CSV
              </a>
            </Show>
          </div>
        </div>
        <Loaded report={report} what="events" value={page()}>
          {(known) => (
            <Show
              when={entriesOf(known()).length > 0}
              fallback={<p class="quiet">{none[props.kind]}</p>}
            >
              <EventTimeline
                entries={entriesOf(known())}
                names={known().names}
                asOf={report.asOf()}
                noteOf={({ action }, index) => outcomeOf(index, action)}
              />
              <Show
                when={props.kind === "all"}
                fallback={
                  <Show when={known().items.length > 5}>
                    <a href={auditPath(changeView(view(), {}))}>Older ones</a>
                  </Show>
                }
              >
                <Show when={known().items.length > 0}>
                  <ListPager
                    label="Pages of the timeline"
                    rows={known().items.length}
                    isContinued={props.cursor !== undefined}
                    firstPath={hostPath()}
                    nextPath={
                      known().next_cursor === null ? undefined : hostPath(known().next_cursor)
                    }
                    noun="event"
                  />
                </Show>
              </Show>
            </Show>
          )}
        </Loaded>
      </section>
    </Show>
  );
};
