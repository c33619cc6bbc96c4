import { hourMarks, type ShownState } from "./hour-view.ts";

/** The square of a state, without a name: its control or the text beside it has one. */
export const HourShape = (props: { state: ShownState }) => (
  <svg class="icon hour-shape" data-hour={props.state} viewBox="0 0 16 16" aria-hidden="true">
    <path d={hourMarks[props.state][2]} fill-rule="evenodd" />
  </svg>
);

/** A state of an hour as shape and word. */
export const HourMark = (props: { state: ShownState }) => (
  <span class="state-mark">
    <HourShape state={props.state} />
    {hourMarks[props.state][0]}
  </span>
);
