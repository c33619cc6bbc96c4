import { createSignal, For, Show } from "solid-js";
import type { FleetFacets } from "#proto/fleet-health/facets.ts";
import { exportFilters } from "#proto/fleet-health/filter.ts";
import { narrowFilter } from "#proto/fleet-health/narrow-filter.ts";
import { type ExportKind, exportKinds } from "#proto/fleet-health/vocabulary.ts";
import { Icon } from "#ui/app/design/icon.tsx";
import { lazyPart } from "#ui/app/design/report-parts.tsx";
import { formatCount, formatCountOf } from "#ui/app/format/format.ts";
import type { PageTrail } from "../view/page-trail.ts";
import {
  exportPath,
  type FleetView,
  pageRows,
  viewPath,
  watchPath,
  withFilter,
  withPage,
} from "../view/view-state.ts";
import type { TablePreferences } from "./table-preferences.ts";

const PreferenceFields = lazyPart(
  "The menu",
  async () => (await import("./preference-fields.tsx")).PreferenceFields,
);

/** The range of rows on this page, and links to the pages before and after. */
export const Pager = (props: {
  view: FleetView;
  trail: PageTrail;
  /** Rows of this page; undefined while they load. */
  rows: number | undefined;
  total: number;
  next: string | null;
  label: string;
}) => {
  const number = () => props.trail.numberOf(props.view.cursor);
  const range = () => {
    const page = number();
    if (props.rows === undefined) return "";
    if (props.rows === 0) return "No hosts";
    if (page === undefined)
      return `${formatCountOf(props.rows, "host")} of ${formatCount(props.total)}`;
    const from = (page - 1) * pageRows;
    return `${formatCount(from + 1)} to ${formatCount(from + props.rows)} of ${formatCountOf(props.total, "host")}`;
  };
  return (
    <nav class="pager" aria-label={props.label}>
      <span>{range()}</span>
      <Show when={props.view.cursor !== undefined}>
        <a
          class="button"
          href={viewPath(withPage(props.view, props.trail.before(props.view.cursor)))}
        >
          <Icon name="previous" /> {(number() ?? 1) > 1 ? "Previous" : "First page"}
        </a>
      </Show>
      <Show when={props.next}>
        {(next) => (
          <a class="button" href={viewPath(withPage(props.view, next()))}>
            Next <Icon name="next" />
          </a>
        )}
      </Show>
    </nav>
  );
};

/** Leads an admin to the form that watches the hosts of the view. */
export const WatchLink = (props: { view: FleetView }) => (
  <a class="button" href={watchPath(props.view)}>
    Watch this view
  </a>
);

const exportNames: Readonly<Record<ExportKind, string>> = {
  stale: "Stale hosts",
  queue_risk: "Queue risk",
  renewal_failures: "Renewal failures",
  config_drift: "Config drift",
};

/** The four CSV exports under the current filters, each with its row count. */
export const ExportMenu = (props: {
  view: FleetView;
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
      <button
        ref={props.ref}
        class="button"
        type="button"
        popovertarget="export-menu"
        title="Export (e)"
      >
        <Icon name="export" /> Export
      </button>
      <section
        ref={menu}
        id="export-menu"
        class="popover menu exports"
        popover="auto"
        aria-label="Export all pages as CSV, under the current filters"
        onToggle={focusFirst}
      >
        <p class="exports-scope">
          CSV of all pages, under the current filters. A list has every host with the condition,
          whatever its state: it can have more rows than the state's chip counts.
        </p>
        <ul>
          <For each={exportKinds}>
            {(kind) => (
              <li>
                <a
                  class="exports-link"
                  href={exportPath(kind, props.view)}
                  download=""
                  onClick={() => menu.hidePopover()}
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
                      onClick={() => menu.hidePopover()}
                    >
                      Show<span class="visually-hidden"> {exportNames[kind]}</span>
                    </a>
                  )}
                </Show>
              </li>
            )}
          </For>
        </ul>
      </section>
    </>
  );
};

interface PreferencesProps {
  preferences: TablePreferences;
  /** The keys of the fleet's labels, the most frequent first. */
  labelKeys: readonly string[];
  onChange: (preferences: TablePreferences) => void;
}

/** The menu of the table preferences. */
export const PreferencesMenu = (props: PreferencesProps) => {
  const [opened, setOpened] = createSignal(false);
  return (
    <>
      <button class="button" type="button" popovertarget="table-menu">
        <Icon name="columns" /> View
      </button>
      <div
        id="table-menu"
        class="popover menu"
        popover="auto"
        onBeforeToggle={() => setOpened(true)}
      >
        <Show when={opened()}>
          <PreferenceFields {...props} />
        </Show>
      </div>
    </>
  );
};
