import { Show } from "solid-js";
import { useShownReports } from "../api/shown-reports.tsx";
import { causeOf } from "../design/freshness.tsx";
import { Icon } from "../design/icon.tsx";
import { formatDuration } from "../format/format.ts";
import { usePageContext } from "./page-context.tsx";

/** Reports over the page that something on it is old, unless that part says so itself. */
export const OldData = () => {
  const reports = useShownReports();
  const { state } = usePageContext();
  return (
    // After the session's end, its own banner says so.
    <Show when={state().status !== "ended" && reports.old()}>
      {(report) => (
        <p class="banner">
          <Icon name="warning" />
          <span>
            <span role="status">{causeOf(report())}This page shows old data.</span> Updated{" "}
            {formatDuration(report().ageSeconds() ?? 0)} ago.
          </span>
        </p>
      )}
    </Show>
  );
};
