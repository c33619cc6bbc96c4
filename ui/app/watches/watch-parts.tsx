import { Show } from "solid-js";
import type { WatchState } from "../../../proto/watch/vocabulary.ts";
import type { Watch } from "../../../proto/watch/watch.ts";
import { Icon } from "../design/parts.tsx";
import { plainText } from "../format/format.ts";
import { Time } from "../shell/page.tsx";
import { stateMarks } from "./watch-view.ts";
import "./watches.css";

/** A state as shape and word. */
export const WatchStateMark = (props: { state: WatchState }) => (
  <span class="watch-state" data-watch-state={props.state}>
    <Icon name={stateMarks[props.state].shape} /> {stateMarks[props.state].words}
  </span>
);

/** Until when a watch is silenced, and by whom. */
export const WatchSilence = (props: { watch: Watch; asOf: number }) => (
  <Show when={props.watch.silence} fallback={<span class="quiet">none</span>}>
    {(silence) => (
      <>
        until <Time at={silence().until} asOf={props.asOf} />
        <span class="second-line">
          by {plainText(silence().by)}
          {silence().reason === null ? "" : `: ${plainText(silence().reason ?? "")}`}
        </span>
      </>
    )}
  </Show>
);
