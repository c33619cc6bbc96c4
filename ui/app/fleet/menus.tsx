import { Show } from "solid-js";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { parsePastTime } from "#proto/values.ts";
import type { LiveReport } from "../api/live-report.tsx";
import { PopoverMenu } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { Freshness } from "../design/report-parts.tsx";
import { usePageContext } from "../session/page-context.tsx";
import { type FleetView, viewPath, withTime } from "./view/view-state.ts";

const FactorList = lazyPart(
  "The common values",
  async () => (await import("./factors/factor-list.tsx")).FactorList,
);
/** The history of the fleet: in a popover of a button or, on a page of the past, in its place. */
export const LazyHistory = lazyPart(
  "The history",
  async () => (await import("./history/history-strip.tsx")).HistoryStrip,
);

/** What the hosts of the view have in common, in a popover. */
export const FactorsMenu = (props: { view: FleetView }) => (
  <PopoverMenu id="factors-menu" button="In common" class="factors">
    <FactorList view={props.view} />
  </PopoverMenu>
);

/** The age of the page or, of a past one, its time: nothing on it is of now then. */
export const FleetAge = (props: {
  view: FleetView;
  report: LiveReport<FleetHealthReport>;
  onPause: () => void;
  onRefresh: () => void;
}) => {
  const { times } = usePageContext();
  return (
    <Show
      when={props.view.at}
      fallback={
        <Freshness {...props} zone={times.zone()}>
          <PopoverMenu id="history-menu" button="History" class="history-popover">
            <LazyHistory view={props.view} />
          </PopoverMenu>
        </Freshness>
      }
    >
      {(at) => (
        <div class="past-mark" role="status">
          <Icon name="warning" />
          <p>
            The past, at <b>{times.text(parsePastTime(at()) ?? Number.NaN)}</b>
          </p>
          <a class="button" href={viewPath(withTime(props.view))}>
            Back to now
          </a>
        </div>
      )}
    </Show>
  );
};
