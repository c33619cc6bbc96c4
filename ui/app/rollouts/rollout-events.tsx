import { createMemo, Show } from "solid-js";
import { AuditEventPage } from "../../../proto/audit-event.ts";
import type { OutageView } from "../../../proto/fleet-health/outage.ts";
import { createReport } from "../api/create-report.ts";
import { type AuditView, auditExportPath, auditPath, eventsPath } from "../audit/audit-view.ts";
import { EventTimeline } from "../audit/event-timeline.tsx";
import { OldNotice } from "../design/freshness.tsx";
import { Icon } from "../design/icon.tsx";
import { Loaded } from "../design/loaded.tsx";
import { withOutages } from "../fleet/summary/outages.tsx";
import "../fleet/drawer/drawer.css";

/** What happened to a rollout, newest first: the newest page of its audit events, and the outages of core between them. */
export const RolloutEvents = (props: {
  id: string;
  paused: boolean;
  outages: readonly OutageView[] | undefined;
}) => {
  const view = (): AuditView => ({ actions: [], target: props.id });
  const report = createReport({
    schema: AuditEventPage,
    path: createMemo(() => eventsPath(view())),
    intervalMs: 15_000,
    paused: () => props.paused,
  });
  const page = report.current;
  const entriesOf = ({ items, next_cursor }: AuditEventPage) =>
    withOutages(items, props.outages, {
      timeOf: ({ occurred_at }) => occurred_at,
      isLast: next_cursor === null,
    });
  return (
    <section class="rollout-part" aria-labelledby="timeline">
      <div class="page-tools">
        <h2 id="timeline">Timeline</h2>
        <div class="page-tools-end">
          <a class="button" href={auditPath(view())}>
            Show in audit
          </a>
          <a class="button" href={auditExportPath("csv", view())} download="">
            <Icon name="export" /> CSV of the events
          </a>
        </div>
      </div>
      <OldNotice report={report} what="These events are" paused={props.paused} />
      <Loaded report={report} what="events" value={page()}>
        {(known) => (
          <Show
            when={entriesOf(known()).length > 0}
            fallback={<p class="quiet">No events recorded.</p>}
          >
            <EventTimeline
              entries={entriesOf(known())}
              names={known().names}
              asOf={report.asOf()}
            />
            <Show when={known().next_cursor}>
              <a href={auditPath(view())}>Older events</a>
            </Show>
          </Show>
        )}
      </Loaded>
    </section>
  );
};
