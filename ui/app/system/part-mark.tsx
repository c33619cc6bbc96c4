import type { PartState } from "#proto/system/report.ts";
import { Icon } from "../design/icon.tsx";
import "./system.css";

const stateWords: Readonly<Record<PartState, string>> = {
  not_ready: "not ready",
  warning: "warning",
  ready: "ready",
  disabled: "not configured",
};

const shapeOf = {
  not_ready: "close",
  warning: "warning",
  ready: "check",
  disabled: "info",
} as const;

/** A state as shape and word. */
export const PartMark = (props: { state: PartState; words?: string }) => (
  <span class="state-mark system-state" data-part={props.state}>
    <Icon name={shapeOf[props.state]} />
    {props.words ?? stateWords[props.state]}
  </span>
);
