import { For, Show } from "solid-js";
import type { AuditEventView, RecordNames } from "../../../proto/audit-event.ts";
import { OutageEntry, type TimelineEntry } from "../fleet/summary/outages.tsx";
import { Time } from "../shell/time.tsx";
import { EventActor, EventWhat } from "./event-parts.tsx";
import "./audit.css";

/** Audit events as sentences, and the outages of core between them. `noteOf` adds what came of an event. */
export const EventTimeline = (props: {
  entries: readonly TimelineEntry<AuditEventView>[];
  names: RecordNames;
  asOf: number;
  noteOf?: (event: AuditEventView, index: number) => string | undefined;
}) => (
  <ol class="timeline">
    <For each={props.entries}>
      {({ event, outage }, index) =>
        event ? (
          <li data-failed={event.outcome === "failure" ? "" : undefined}>
            <p class="quiet">
              <Time at={event.occurred_at} asOf={props.asOf} /> ·{" "}
              <EventActor event={event} names={props.names} />
            </p>
            <EventWhat event={event} names={props.names} />
            <Show when={props.noteOf?.(event, index())}>
              {(note) => <p class="quiet">{note()}</p>}
            </Show>
          </li>
        ) : (
          <OutageEntry outage={outage} at={<Time at={outage.began_at} asOf={props.asOf} />} />
        )
      }
    </For>
  </ol>
);
