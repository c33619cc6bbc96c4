import { type JSX, Show } from "solid-js";
import type { WatchState } from "../../../proto/watch/vocabulary.ts";
import type { Watch } from "../../../proto/watch/watch.ts";
import { useUpdates } from "../api/live-report.tsx";
import { Icon } from "../design/parts.tsx";
import { TwoLines } from "../design/records.tsx";
import { plainText } from "../format/format.ts";
import { Time } from "../shell/page.tsx";
import { hostsPath, stateMarks } from "./watch-view.ts";
import "./watches.css";

/** A state as shape and word. */
export const WatchStateMark = (props: { state: WatchState }) => (
  <span class="record-state" data-watch-state={props.state}>
    <Icon name={stateMarks[props.state].shape} /> {stateMarks[props.state].words}
  </span>
);

/** A link to the hosts that a watch counts, as they are now. */
export const HostsOfWatch = (props: { watch: Watch; title?: string; children: JSX.Element }) => {
  const { asOf } = useUpdates();
  return (
    <a href={hostsPath(props.watch, asOf())} title={props.title}>
      {props.children}
    </a>
  );
};

/** Until when a watch is silenced, and by whom. */
export const WatchSilence = (props: { watch: Watch }) => (
  <Show when={props.watch.silence} fallback={<span class="quiet">none</span>}>
    {(silence) => (
      <TwoLines
        second={`by ${[silence().by, silence().reason]
          .filter((text) => text !== null)
          .map(plainText)
          .join(": ")}`}
      >
        until <Time at={silence().until} />
      </TwoLines>
    )}
  </Show>
);
