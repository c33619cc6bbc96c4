import { Show } from "solid-js";
import { PopoverMenu } from "#ui/app/design/buttons.tsx";
import { Icon } from "#ui/app/design/icon.tsx";
import { lazyPart } from "#ui/app/design/lazy-part.tsx";
import { formatCount, formatCountOf } from "#ui/app/format/format.ts";
import type { PageTrail } from "../view/page-trail.ts";
import { type FleetView, pageRows, viewPath, watchPath, withPage } from "../view/view-state.ts";

const ExportList = lazyPart("The menu", async () => (await import("./export-list.tsx")).ExportList);
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

/** The menu of the four CSV exports. */
export const ExportMenu = (
  props: Parameters<typeof ExportList>[0] & { ref: (button: HTMLButtonElement) => void },
) => (
  <PopoverMenu
    id="export-menu"
    ref={props.ref}
    button="Export"
    title="Export (e)"
    face={
      <>
        <Icon name="export" /> Export
      </>
    }
    label="Export all pages as CSV, under the current filters"
    class="menu exports"
  >
    <ExportList view={props.view} counts={props.counts} />
  </PopoverMenu>
);

/** The menu of the table preferences. */
export const PreferencesMenu = (props: Parameters<typeof PreferenceFields>[0]) => (
  <PopoverMenu
    id="table-menu"
    button="View"
    face={
      <>
        <Icon name="columns" /> View
      </>
    }
    class="menu"
  >
    <PreferenceFields {...props} />
  </PopoverMenu>
);
