import { For, Show } from "solid-js";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import { exportFilters } from "#proto/fleet-health/filter.ts";
import { narrowFilter } from "#proto/fleet-health/narrow-filter.ts";
import { type ExportKind, exportKinds } from "#proto/fleet-health/vocabulary.ts";
import { formatCountOf } from "#ui/app/format/format.ts";
import { exportPath, type FleetView, viewPath, withFilter } from "../view/view-state.ts";

const exportNames: Readonly<Record<ExportKind, string>> = {
  stale: "Stale hosts",
  queue_risk: "Queue risk",
  unhealthy_components: "Unhealthy components",
  renewal_failures: "Renewal failures",
  config_drift: "Config drift",
};

const closeMenu = ({ currentTarget }: { currentTarget: Element }) =>
  currentTarget.closest<HTMLElement>("[popover]")?.hidePopover();

/** The CSV exports under the current filters, each with its row count; the first takes the focus. */
export const ExportList = (props: {
  view: FleetView;
  counts: FleetFacets["exports"] | undefined;
}) => (
  <>
    <p class="exports-scope">
      CSV of all pages, under the current filters. A list has every host with the condition,
      whatever its state: it can have more rows than the state's chip counts.
    </p>
    <ul ref={(list) => queueMicrotask(() => list.querySelector("a")?.focus())}>
      <For each={exportKinds}>
        {(kind) => (
          <li>
            <a
              class="exports-link"
              href={exportPath(kind, props.view)}
              download=""
              onClick={closeMenu}
            >
              {exportNames[kind]}
              <Show when={props.counts}>
                {(counts) => (
                  <span class="exports-count">{formatCountOf(counts()[kind], "row")}</span>
                )}
              </Show>
            </a>
            <Show when={narrowFilter(props.view.filter, exportFilters[kind])}>
              {(filter) => (
                <a
                  class="exports-show"
                  href={viewPath(withFilter(props.view, filter()))}
                  onClick={closeMenu}
                >
                  Show<span class="visually-hidden"> {exportNames[kind]}</span>
                </a>
              )}
            </Show>
          </li>
        )}
      </For>
    </ul>
  </>
);
