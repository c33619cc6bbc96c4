import type { FleetState } from "#proto/fleet-health/vocabulary.ts";

/**
 * Shapes as paths on a grid of 16 by 16, filled by even-odd. Every state has a silhouette of its own, so that it is recognised
 * without colour: a disc with a tick, a clock, an hourglass, bars, a diamond, a square, a triangle, a crossed disc, a plus in a ring, a plug.
 */
const stateShapes: Record<FleetState, string> = {
  healthy: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm3.1 4L7 9.1 4.9 7 3.6 8.3 7 11.7l5.4-5.4Z",
  stale:
    "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm0 1.7a5.3 5.3 0 1 0 0 10.6A5.3 5.3 0 0 0 8 2.7Zm-.8 1.6h1.6v3.3l2.4 1.5-.9 1.4-3.1-2Z",
  cert_expiring:
    "M3 1h10v1.8h-1.1c0 2.5-1.6 4.1-2.7 5.2 1.1 1.1 2.7 2.7 2.7 5.2H13V15H3v-1.8h1.1c0-2.5 1.6-4.1 2.7-5.2-1.1-1.1-2.7-2.7-2.7-5.2H3Zm2.9 1.8c.2 1.7 1.2 2.7 2.1 3.5.9-.8 1.9-1.8 2.1-3.5Z",
  queue_at_risk: "M2 2h12v2.6H2Zm0 4.7h12v2.6H2Zm0 4.7h7V14H2Zm9 0h3V14h-3Z",
  component_unhealthy: "M4.5 1h2v3.5h3V1h2v3.5H14v4a5 5 0 0 1-5 5V15H7v-1.5a5 5 0 0 1-5-5v-4h2.5Z",
  config_invalid: "M8 .6 15.4 8 8 15.4.6 8Zm-.9 3.6v4.6h1.8V4.2Zm0 5.8v1.8h1.8V10Z",
  unsupported_version: "M2.5 1.5h11v13h-11Zm4.6 2.5v4.3H4.7L8 12l3.3-3.7H8.9V4Z",
  renewal_failed: "M8 1l7.3 13.5H.7Zm-.9 4.6v4.2h1.8V5.6Zm0 5.4v1.8h1.8V11Z",
  revoked: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1ZM4 7.1v1.8h8V7.1Z",
  enrolling:
    "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm0 1.7a5.3 5.3 0 1 0 0 10.6A5.3 5.3 0 0 0 8 2.7Zm-.8 2.1h1.6v2.4h2.4v1.6H8.8v2.4H7.2V8.8H4.8V7.2h2.4Z",
};

/** Shapes of actions and objects. */
const shapes = {
  menu: "M2 3h12v1.8H2Zm0 4.1h12v1.8H2Zm0 4.1h12V13H2Z",
  refresh:
    "M8 2.2c1.7 0 3.2.7 4.3 1.8L13.8 2.5V7H9.3l1.8-1.8a4.2 4.2 0 1 0 1 4.2h1.8A5.9 5.9 0 1 1 8 2.2Z",
  pause: "M4 2.5h2.8v11H4Zm5.2 0H12v11H9.2Z",
  play: "M4 2l9.5 6L4 14Z",
  info: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm0 1.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM7.2 7h1.6v4.5H7.2Zm0-2.5h1.6v1.6H7.2Z",
  search:
    "M7 1.5a5.5 5.5 0 0 1 4.4 8.8l3.4 3.4-1.1 1.1-3.4-3.4A5.5 5.5 0 1 1 7 1.5ZM7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8Z",
  columns: "M1.5 2.5h13v11h-13ZM3 4v8h2.7V4Zm4.2 0v8h1.6V4Zm3.1 0v8H13V4Z",
  sortable: "M8 2.5l3.3 4.5H4.7Zm0 11L4.7 9h6.6Z",
  ascending: "M8 4.5l4 6H4Z",
  descending: "M8 11.5l-4-6h8Z",
  close:
    "M3.5 2.4 8 6.9l4.5-4.5 1.1 1.1L9.1 8l4.5 4.5-1.1 1.1L8 9.1l-4.5 4.5-1.1-1.1L6.9 8 2.4 3.5Z",
  copy: "M1.5 1.5h9v2.7H9V3H3v6h1.2v1.5H1.5Zm4 4h9v9h-9ZM7 7v6h6V7Z",
  export: "M7.2 1.5h1.6v6l2.1-2.1 1.1 1.1-4 4-4-4 1.1-1.1 2.1 2.1ZM2 11h1.6v2h8.8v-2H14v3.6H2Z",
  next: "M5.6 2.4 11.2 8l-5.6 5.6-1.1-1.1L9 8 4.5 3.5Z",
  previous: "M10.4 2.4 4.8 8l5.6 5.6 1.1-1.1L7 8l4.5-4.5Z",
  check: "M13.3 3.2 6.2 10.3 2.9 7 1.8 8.1l4.4 4.4 8.2-8.2Z",
  warning: "M8 1l7.3 13.5H.7Zm0 3.1L3.3 13h9.4Zm-.8 2.7h1.6v3H7.2Zm0 3.9h1.6v1.5H7.2Z",
} as const;

/** A name of `shapes`. */
export type ShapeName = keyof typeof shapes;

/** A shape 16 px wide in the colour of the text. It has no accessible name: visible text or the label of its control names it. */
export const Icon = (props: { name: ShapeName }) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={shapes[props.name]} fill-rule="evenodd" />
  </svg>
);

const stateNames: Record<FleetState, string> = {
  revoked: "Revoked",
  enrolling: "Enrolling",
  renewal_failed: "Renewal failed",
  stale: "Stale",
  cert_expiring: "Certificate expiring",
  config_invalid: "Config invalid",
  unsupported_version: "Unsupported version",
  queue_at_risk: "Queue at risk",
  component_unhealthy: "Component fails",
  healthy: "Healthy",
};

/** A health state as shape and word, never colour alone. */
export const StateMark = (props: { state: FleetState }) => (
  <span class="state-mark">
    <svg class="icon" data-state={props.state} viewBox="0 0 16 16" aria-hidden="true">
      <path d={stateShapes[props.state]} fill-rule="evenodd" />
    </svg>
    {stateNames[props.state]}
  </span>
);

/** What a state means for whoever is responsible; its colour. */
type Tone = "ok" | "info" | "warn" | "crit" | "muted";

/** The state of a record in words, as a shape, so that it is not recognised by its colour alone, and its tone. */
export type StateWords = readonly [words: string, shape: ShapeName, tone: Tone];

/** The state of a record as shape and words. */
export const RecordState = (props: { of: StateWords }) => (
  <span class="record-state" data-tone={props.of[2]}>
    <Icon name={props.of[1]} /> {props.of[0]}
  </span>
);
