import { lazy } from "solid-js";
import { LazyPart } from "../../design/load-failure.tsx";
import { PopoverMenu } from "../../design/popover-menu.tsx";
import type { FleetView } from "../view/view-state.ts";

const HistoryStrip = lazy(async () => ({
  default: (await import("./history-strip.tsx")).HistoryStrip,
}));

/** The history of the fleet: in a popover of a button or, on a page of the past, in its place. */
export const HistoryMenu = (props: { view: FleetView; paused: boolean }) => (
  <PopoverMenu id="history-menu" button="History" class="history-popover">
    <HistoryPart {...props} />
  </PopoverMenu>
);

/** The strip, which is loaded when it is shown. */
export const HistoryPart = (props: { view: FleetView; paused: boolean }) => (
  <LazyPart what="The history">
    <HistoryStrip view={props.view} paused={props.paused} />
  </LazyPart>
);
