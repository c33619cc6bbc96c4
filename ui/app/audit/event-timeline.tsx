import { For, Show } from "solid-js";
import type { AuditEventView, RecordNames } from "#proto/audit-event.ts";
import { OutageEntry, type TimelineEntry } from "../fleet/summary/outages.tsx";
import { Time } from "../shell/page.tsx";
import { actorPiece, type EventPiece, eventFacts, sentencePieces } from "./event-view.ts";
import "./audit.css";

/** A piece of a sentence, as a link where it has a page. */
const Piece = (props: { piece: EventPiece }) => (
  <Show when={props.piece.href} fallback={<span title={props.piece.full}>{props.piece.text}</span>}>
    {(href) => (
      <a href={href()} title={props.piece.full}>
        {props.piece.text}
      </a>
    )}
  </Show>
);

/** The actor of an event; marks a collector with "(host)". */
export const EventActor = (props: { event: AuditEventView; names: RecordNames }) => (
  <>
    <Piece piece={actorPiece(props.event, props.names)} />
    <Show when={props.event.actor.type === "collector"}>
      <span class="quiet"> (host)</span>
    </Show>
  </>
);

/** What happened, why, and on request everything that the event records. */
export const EventDescription = (props: { event: AuditEventView; names: RecordNames }) => (
  <div class="event-what">
    <p>
      <For each={sentencePieces(props.event, props.names)}>
        {(piece) => <Piece piece={piece} />}
      </For>
      <Show when={props.event.outcome === "failure"}>
        <span class="event-failed"> failed</span>
      </Show>
    </p>
    <Show when={props.event.reason_code ?? props.event.reason}>
      <p>
        <span class="quiet">Reason: </span>
        <Show when={props.event.reason_code}>{(code) => <code>{code()}</code>}</Show>
        <Show when={props.event.reason_code !== null && props.event.reason !== null}>, </Show>
        {props.event.reason}
      </p>
    </Show>
    <details>
      <summary>Details</summary>
      <dl class="event-facts">
        <For each={eventFacts(props.event, props.names)}>
          {([name, values]) => (
            <>
              <dt>{name}</dt>
              <dd>
                <For each={values}>
                  {(value) => (
                    <span class="event-value">
                      <Piece piece={value} />
                    </span>
                  )}
                </For>
              </dd>
            </>
          )}
        </For>
      </dl>
    </details>
  </div>
);

/** Audit events as sentences, and the outages of core between them. `noteOf` returns the outcome of an event. */
export const EventTimeline = (props: {
  entries: readonly TimelineEntry<AuditEventView>[];
  names: RecordNames;
  noteOf?: (event: AuditEventView, index: number) => string | undefined;
}) => (
  <ol class="timeline">
    <For each={props.entries}>
      {({ event, outage }, index) =>
        event ? (
          <li data-failed={event.outcome === "failure" ? "" : undefined}>
            <p class="quiet">
              <Time at={event.occurred_at} /> · <EventActor event={event} names={props.names} />
            </p>
            <EventDescription event={event} names={props.names} />
            <Show when={props.noteOf?.(event, index())}>
              {(note) => <p class="quiet">{note()}</p>}
            </Show>
          </li>
        ) : (
          <OutageEntry outage={outage} at={<Time at={outage.began_at} />} />
        )
      }
    </For>
  </ol>
);
