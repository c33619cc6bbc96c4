import { Index, Show } from "solid-js";
import type { FleetHistoryEvent } from "../../../../proto/fleet-health/detail.ts";
import { formatAgo, formatMoment } from "../../format/time.ts";
import { eventFacts, eventTitle } from "./detail-view.ts";

/** What happened to a collector, newest first, from the audit log. */
export const Timeline = (props: { history: readonly FleetHistoryEvent[]; asOf: number }) => (
  <Show when={props.history.length > 0} fallback={<p class="drawer-quiet">Nothing is recorded.</p>}>
    <ol class="timeline">
      <Index each={props.history}>
        {(event) => (
          <li data-failed={event().outcome === "failure" ? "" : undefined}>
            <p>
              <b>{eventTitle(event())}</b> by {event().actor.display}
              <Show when={event().actor.type !== "operator"}>
                <span class="drawer-quiet"> ({event().actor.type})</span>
              </Show>
            </p>
            <p class="drawer-quiet">
              <time datetime={event().at}>
                {formatAgo(event().at, props.asOf)} · {formatMoment(event().at)}
              </time>
            </p>
            <Index each={eventFacts(event())}>
              {(fact) => (
                <p class="drawer-quiet timeline-fact">
                  {fact()[0]}: {fact()[1]}
                </p>
              )}
            </Index>
          </li>
        )}
      </Index>
    </ol>
  </Show>
);
