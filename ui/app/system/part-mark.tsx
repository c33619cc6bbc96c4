import type { PartState } from "#proto/system/report.ts";
import { Icon, type StateWords } from "../design/icon.tsx";
import "./system.css";

const marks: Readonly<Record<PartState, StateWords>> = {
  not_ready: ["not ready", "close", "crit"],
  warning: ["warning", "warning", "warn"],
  ready: ["ready", "check", "ok"],
  disabled: ["not configured", "info", "muted"],
};

/** A state as shape and word. */
export const PartMark = (props: { state: PartState; words?: string }) => {
  const mark = () => marks[props.state];
  return (
    <span class="state-mark system-state" data-tone={mark()[2]}>
      <Icon name={mark()[1]} />
      {props.words ?? mark()[0]}
    </span>
  );
};
