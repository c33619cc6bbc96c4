import { Show } from "solid-js";
import { formatCount, formatCountOf } from "../../format/amount.ts";
import { Icon } from "../../icons/icon.tsx";
import type { PageTrail } from "./page-trail.ts";
import { type FleetView, pageRows, viewPath, withPage } from "./view-state.ts";

/** Which rows of how many are shown, and the ways to the pages before and after. */
export const Pager = (props: {
  view: FleetView;
  trail: PageTrail;
  /** Rows of this page; undefined until they are known. */
  rows: number | undefined;
  total: number;
  next: string | null;
  label: string;
}) => {
  const range = () => {
    const number = props.trail.numberOf(props.view.cursor);
    if (props.rows === undefined) return "";
    if (props.rows === 0) return "No collectors";
    if (number === undefined) return `${formatCountOf(props.rows, "collector")} of ${formatCount(props.total)}`;
    const from = (number - 1) * pageRows;
    return `${formatCount(from + 1)} to ${formatCount(from + props.rows)} of ${formatCountOf(props.total, "collector")}`;
  };
  const isKnown = () => (props.trail.numberOf(props.view.cursor) ?? 1) > 1;
  return (
    <nav class="pager" aria-label={props.label}>
      <span>{range()}</span>
      <Show when={props.view.cursor !== undefined}>
        <a class="button" href={viewPath(withPage(props.view, props.trail.before(props.view.cursor)))}>
          <Icon name="previous" /> {isKnown() ? "Previous" : "First page"}
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
