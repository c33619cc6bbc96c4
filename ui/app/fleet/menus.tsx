import { lazy, Show } from "solid-js";
import { parsePastTime } from "../../../proto/fleet-health/past-time.ts";
import type { FleetHealthReport } from "../../../proto/fleet-health/report.ts";
import type { LiveReport } from "../api/live-report.tsx";
import { Icon, PopoverMenu } from "../design/parts.tsx";
import { Freshness, LazyPart } from "../design/report-parts.tsx";
import { formatTimestamp, type TimeZone } from "../format/format.ts";
import { type FleetView, viewPath, withTime } from "./view/view-state.ts";

const FactorList = lazy(async () => ({
  default: (await import("./factors/factor-list.tsx")).FactorList,
}));

/** What the hosts of the view have in common, in a popover. */
export const FactorsMenu = (props: { view: FleetView }) => (
  <PopoverMenu
    id="factors-menu"
    button="In common"
    label="What these hosts have in common"
    class="factors"
  >
    <LazyPart what="What these hosts have in common">
      <FactorList view={props.view} />
    </LazyPart>
  </PopoverMenu>
);

const AheadList = lazy(async () => ({
  default: (await import("./ahead/ahead-list.tsx")).AheadList,
}));
const ChangeList = lazy(async () => ({
  default: (await import("./changes/change-list.tsx")).ChangeList,
}));

/** What runs out in the next three days, and what hosts changed, each in a popover. */
export const QuestionMenus = () => (
  <>
    <PopoverMenu
      id="ahead-menu"
      button="Next 72 h"
      label="What runs out in the next 72 hours"
      class="ahead"
    >
      <LazyPart what="What runs out">
        <AheadList />
      </LazyPart>
    </PopoverMenu>
    <PopoverMenu
      id="changes-menu"
      button="Changes"
      label="Upgrades and changes of labels"
      class="changes"
    >
      <LazyPart what="The list of changes">
        <ChangeList />
      </LazyPart>
    </PopoverMenu>
  </>
);

const HistoryStrip = lazy(async () => ({
  default: (await import("./history/history-strip.tsx")).HistoryStrip,
}));

/** The history of the fleet: in a popover of a button or, on a page of the past, in its place. */
const HistoryMenu = (props: { view: FleetView; paused: boolean }) => (
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

/** The age of the page or, of a past one, its time: nothing on it is of now then. */
export const FleetAge = (props: {
  view: FleetView;
  report: LiveReport<FleetHealthReport>;
  paused: boolean;
  zone: TimeZone;
  onPause: () => void;
  onRefresh: () => void;
}) => (
  <Show
    when={props.view.at}
    fallback={
      <Freshness {...props}>
        <HistoryMenu view={props.view} paused={props.paused} />
      </Freshness>
    }
  >
    {(at) => (
      <div class="past-mark" role="status">
        <Icon name="warning" />
        <p>
          The past, at <b>{formatTimestamp(parsePastTime(at()) ?? Number.NaN, props.zone)}</b>
        </p>
        <a class="button" href={viewPath(withTime(props.view))}>
          Back to now
        </a>
      </div>
    )}
  </Show>
);
