import { For, Show } from "solid-js";
import type { HourState } from "#proto/completeness/hour-state.ts";
import type { HostStrip } from "#proto/completeness/report.ts";
import { CopiedCommand } from "../design/buttons.tsx";
import { WithCode } from "../design/with-code.tsx";
import { formatCount, formatCountOf } from "../format/format.ts";
import { HourMark } from "./hour-mark.tsx";
import {
  dayHourText,
  holesOf,
  nextStepOf,
  type RunAt,
  sentence,
  shortageText,
} from "./hour-view.ts";

const shownMax = 3;

/** The hours of a host in these states, the largest loss first: why, what to do, and how to close a queue that holds them open. */
export const Holes = (props: { host: HostStrip; states: readonly HourState[] }) => {
  const holes = () => holesOf(props.host, props.states);
  return (
    <div class="stack gap-1">
      <For each={holes().slice(0, shownMax)}>
        {(hole) => <Hole id={props.host.identity_id} hole={hole} />}
      </For>
      <Show when={holes().length > shownMax && props.host.identity_id}>
        {(id) => (
          <a href={`/hosts/${id()}#completeness`}>{formatCount(holes().length - shownMax)} more</a>
        )}
      </Show>
      <Show when={props.host.identity_id}>
        {(id) => (
          <For each={props.host.open_queues}>
            {(queue) => <OpenQueue id={id()} queue={queue} />}
          </For>
        )}
      </Show>
    </div>
  );
};

const Hole = (props: { id: string | null; hole: RunAt }) => {
  const { state, from, hours, shortages } = props.hole;
  const words = `${formatCountOf(hours, "hour")} from ${dayHourText(from)} UTC`;
  return (
    <div>
      <div class="row">
        <Show when={state}>{(known) => <HourMark state={known()} />}</Show>
        <Show when={props.id} fallback={<span>{words}</span>}>
          {(id) => <a href={`/hosts/${id()}?hour=${from}#completeness`}>{words}</a>}
        </Show>
      </div>
      <Show when={shortages.length > 0}>
        <span class="hour-shortages">{sentence(shortages.map(shortageText).join(", "))}</span>{" "}
      </Show>
      <WithCode text={nextStepOf(props.hole)} />
    </div>
  );
};

/** The command that closes a queue whose account will not come. */
const OpenQueue = (props: { id: string; queue: string }) => (
  <details>
    <summary>
      If its disk is lost, close queue <code>{props.queue.slice(0, 8)}</code>
    </summary>
    <CopiedCommand
      text={`svc-admin queues close ${props.id} ${props.queue}`}
      what="the command that closes the queue"
    />
    <p class="quiet">
      Needs the scope <code>admin</code>. These hours stay incomplete; later ones no longer wait for
      it.
    </p>
  </details>
);
