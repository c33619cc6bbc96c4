import { Show } from "solid-js";
import { parsePastTime } from "../../../../proto/fleet-health/past-time.ts";
import type { FleetHealthReport } from "../../../../proto/fleet-health/report.ts";
import type { LiveReport } from "../../api/create-report.ts";
import { Freshness } from "../../design/freshness.tsx";
import { Icon } from "../../design/icon.tsx";
import { formatTimestamp, type TimeZone } from "../../format/format.ts";
import { type FleetView, viewPath, withTime } from "../view/view-state.ts";
import { HistoryMenu } from "./history-menu.tsx";

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
