import { For, Show } from "solid-js";
import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import { exportKinds } from "../../../../proto/fleet-health/vocabulary.ts";
import { formatCountOf } from "../../format/amount.ts";
import { Icon } from "../../icons/icon.tsx";
import type { FleetFilter } from "../query-language/filter.ts";
import { exportNames, exportPath } from "./export-path.ts";

/** The four CSVs of the fleet under the filter, all pages, each with the rows it would have. */
export const ExportMenu = (props: {
  filter: FleetFilter;
  counts: FleetFacets["exports"] | undefined;
  /** Receives the button, for the shortcut that presses it. */
  ref: (button: HTMLButtonElement) => void;
}) => {
  let menu!: HTMLElement;
  const focusFirst = (event: Event) => {
    if (event instanceof ToggleEvent && event.newState === "open") menu.querySelector("a")?.focus();
  };
  return (
    <>
      <button ref={props.ref} class="button" type="button" popovertarget="export-menu" title="Export (e)">
        <Icon name="export" /> Export
      </button>
      <section
        ref={menu}
        id="export-menu"
        class="popover menu exports"
        popover="auto"
        aria-label="Export as CSV, all pages, under the filters in force"
        onToggle={focusFirst}
      >
        <p class="exports-scope">
          CSV, all pages, under the filters in force. A collector is in each list that it belongs to, whatever its state
          is shown as.
        </p>
        <ul>
          <For each={exportKinds}>
            {(kind) => (
              <li>
                <a
                  class="exports-link"
                  href={exportPath(kind, props.filter)}
                  download=""
                  onClick={() => menu.hidePopover()}
                >
                  {exportNames[kind]}
                  <Show when={props.counts}>
                    {(counts) => <span class="exports-count">{formatCountOf(counts()[kind], "row")}</span>}
                  </Show>
                </a>
              </li>
            )}
          </For>
        </ul>
      </section>
    </>
  );
};
