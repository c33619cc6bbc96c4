import { For, Show } from "solid-js";
import { exportFilters } from "../../../../proto/fleet-health/export-filters.ts";
import type { FleetFacets } from "../../../../proto/fleet-health/facets.ts";
import { narrowFilter } from "../../../../proto/fleet-health/narrow-filter.ts";
import { type ExportKind, exportKinds } from "../../../../proto/fleet-health/vocabulary.ts";
import { Icon } from "../../design/icon.tsx";
import { formatCount, formatCountOf } from "../../format/format.ts";
import type { PageTrail } from "../view/page-trail.ts";
import { exportPath, type FleetView, pageRows, viewPath, withFilter, withPage } from "../view/view-state.ts";
import { columns, labelColumnsMax, type TablePreferences, toggleColumn, toggleLabel } from "./table-preferences.ts";

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
    if (props.rows === 0) return "No collectors";
    if (page === undefined) return `${formatCountOf(props.rows, "collector")} of ${formatCount(props.total)}`;
    const from = (page - 1) * pageRows;
    return `${formatCount(from + 1)} to ${formatCount(from + props.rows)} of ${formatCountOf(props.total, "collector")}`;
  };
  return (
    <nav class="pager" aria-label={props.label}>
      <span>{range()}</span>
      <Show when={props.view.cursor !== undefined}>
        <a class="button" href={viewPath(withPage(props.view, props.trail.before(props.view.cursor)))}>
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

const exportNames: Readonly<Record<ExportKind, string>> = {
  stale: "Stale collectors",
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
      <button ref={props.ref} class="button" type="button" popovertarget="export-menu" title="Export (e)">
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
          CSV of all pages, under the current filters. A list has every collector to which the condition applies, also
          those whose state is another one: so it can have more rows than the chip of the state counts.
        </p>
        <ul>
          <For each={exportKinds}>
            {(kind) => (
              <li>
                <a
                  class="exports-link"
                  href={exportPath(kind, props.view.filter)}
                  download=""
                  onClick={() => menu.hidePopover()}
                >
                  {exportNames[kind]}
                  <Show when={props.counts}>
                    {(counts) => <span class="exports-count">{formatCountOf(counts()[kind], "row")}</span>}
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

/** The menu of the table preferences: density, columns, and a column for each label of the fleet. */
export const PreferencesMenu = (props: {
  preferences: TablePreferences;
  /** The keys of the fleet's labels, the most frequent first. */
  labelKeys: readonly string[];
  onChange: (preferences: TablePreferences) => void;
}) => (
  <>
    <button class="button" type="button" popovertarget="table-menu">
      <Icon name="columns" /> View
    </button>
    <div id="table-menu" class="popover menu" popover="auto">
      <fieldset>
        <legend>Rows</legend>
        <For each={["comfortable", "compact"] as const}>
          {(density) => (
            <label>
              <input
                type="radio"
                name="density"
                checked={props.preferences.density === density}
                onChange={() => props.onChange({ ...props.preferences, density })}
              />
              {density === "comfortable" ? "Two lines" : "One line"}
            </label>
          )}
        </For>
      </fieldset>
      <fieldset>
        <legend>Columns</legend>
        <For each={columns.filter(({ name }) => name !== "device")}>
          {({ name, label }) => (
            <label>
              <input
                type="checkbox"
                checked={!props.preferences.hidden.includes(name)}
                onChange={() => props.onChange(toggleColumn(props.preferences, name))}
              />
              {label}
            </label>
          )}
        </For>
      </fieldset>
      <Show when={labelKeysOf(props).length > 0}>
        <fieldset class="menu-labels">
          <legend>
            Labels{props.preferences.labels.length === labelColumnsMax ? `, at most ${labelColumnsMax}` : ""}
          </legend>
          <For each={labelKeysOf(props)}>
            {(key) => (
              <label>
                <input
                  type="checkbox"
                  checked={props.preferences.labels.includes(key)}
                  disabled={
                    props.preferences.labels.length === labelColumnsMax && !props.preferences.labels.includes(key)
                  }
                  onChange={() => props.onChange(toggleLabel(props.preferences, key))}
                />
                {key}
              </label>
            )}
          </For>
        </fieldset>
      </Show>
    </div>
  </>
);

/** The keys to choose from: those of the fleet, and chosen ones that no host under the filters has. */
const labelKeysOf = (props: { labelKeys: readonly string[]; preferences: TablePreferences }): string[] => [
  ...new Set([...props.labelKeys, ...props.preferences.labels]),
];
