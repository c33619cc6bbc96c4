import type { FleetState } from "../../../proto/fleet-health/vocabulary.ts";
import { type ShapeName, shapes, stateShapes } from "./shapes.ts";

/** A shape 16 px wide in the text's colour. It says nothing by itself: a word stands beside it, or names the control around it. */
export const Icon = (props: { name: ShapeName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={shapes[props.name]} fill-rule="evenodd" />
  </svg>
);

/** The shape of a health state, in the state's colour. */
export const StateIcon = (props: { state: FleetState }) => (
  <svg class="icon" data-state={props.state} viewBox="0 0 16 16" aria-hidden="true">
    <path d={stateShapes[props.state]} fill-rule="evenodd" />
  </svg>
);
