import { For } from "solid-js";
import type { FleetSummaryView } from "../../../../proto/fleet-health/report.ts";
import { formatCount } from "../../format/amount.ts";
import { type FleetView, viewPath, withFilter } from "../view/view-state.ts";
import { holdsPart, togglePart, truthParts } from "./truth-parts.ts";

/** The fleet in one line: what is enrolled, heard of, delivering, and what only seems to. Each part filters. */
export const TruthLine = (props: { summary: FleetSummaryView | undefined; view: FleetView }) => (
  <ul class="truth-line" aria-label="Fleet" data-unknown={props.summary === undefined ? "" : undefined}>
    <For each={truthParts}>
      {(part) => (
        <li>
          <a
            class="truth"
            href={viewPath(withFilter(props.view, togglePart(props.view.filter, part)))}
            noScroll
            aria-current={holdsPart(props.view.filter, part) ? "true" : undefined}
            data-alarm={part.count === "never_forwarded" && props.summary?.never_forwarded ? "" : undefined}
          >
            {/* As wide as a fleet of thousands, until the first answer. */}
            <b>{formatCount(props.summary?.[part.count] ?? 1000)}</b> {part.words}
          </a>
        </li>
      )}
    </For>
  </ul>
);
