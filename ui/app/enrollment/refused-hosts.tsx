import { createMemo, Show } from "solid-js";
import { AuditEventPage } from "../../../proto/audit-event.ts";
import { createReport } from "../api/create-report.ts";
import { auditPath, eventsPath } from "../audit/audit-view.ts";
import { EventTimeline } from "../audit/event-timeline.tsx";

/** The newest enrollments that core refused in the last day, with their reasons: of hosts with `name` in theirs. Nothing without any. */
export const RefusedHosts = (props: { name?: string }) => {
  const view = () => ({
    actions: ["collector.enroll"],
    outcome: "failure" as const,
    withinSeconds: 86_400,
    ...(props.name && { text: props.name }),
  });
  const report = createReport({
    schema: AuditEventPage,
    path: createMemo(() => eventsPath(view())),
    intervalMs: 30_000,
  });
  const events = () => report.current()?.items.slice(0, 5) ?? [];
  return (
    <Show when={events().length > 0 && report.current()}>
      {(page) => (
        <section class="page-section" aria-labelledby="refused-hosts">
          <h2 id="refused-hosts">Refused enrollments{props.name && ` of ${props.name}`}</h2>
          <EventTimeline entries={events().map((event) => ({ event }))} names={page().names} asOf={report.asOf()} />
          <a href={auditPath(view())}>Show in audit</a>
        </section>
      )}
    </Show>
  );
};
