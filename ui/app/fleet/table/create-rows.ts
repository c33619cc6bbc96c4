import { type Accessor, createEffect, on, onCleanup } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import type { FleetHealthReport } from "../../../../proto/fleet-health/report.ts";
import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import type { LiveReport } from "../../api/create-report.ts";
import { keepOrder, type RowView, rowView } from "./row-view.ts";

/** The rows of a page of the report. */
export interface PageRows {
  /** The rows of the newest answer; undefined before the first. After another query they are added a few at a time. */
  rows: Accessor<readonly RowView[] | undefined>;
  /** Shows the next answer in its own order, which an operator who refreshes expects. */
  reorderNext(): void;
}

/** More than a screen holds at first, then a few whenever the browser is idle: two hundred at once would freeze a slow machine. */
const rowsAtFirst = 16;
const rowsWhenIdle = 3;

/**
 * Updates the rows of a report in place: a row keeps its element, its focus and, unless the operator asked for another order, its
 * position.
 */
export const createRows = (report: LiveReport<FleetHealthReport>): PageRows => {
  const [page, setPage] = createStore<{ rows: RowView[] | undefined }>({ rows: undefined });
  /** Rows that are not on the page yet, in order. */
  let waiting: FleetHealthRow[] = [];
  let asOf = 0;
  let shownQuery: string | undefined;
  let inOrder = false;
  let cancelIdle: (() => void) | undefined;

  const viewOf = (item: FleetHealthRow): RowView => rowView(item, asOf);
  const revealMore = (): void => {
    cancelIdle?.();
    if (waiting.length === 0) return;
    cancelIdle = whenIdle(() => {
      const views = waiting.splice(0, rowsWhenIdle).map(viewOf);
      setPage("rows", (rows = []) => [...rows, ...views]);
      revealMore();
    });
  };
  onCleanup(() => cancelIdle?.());

  createEffect(
    on(report.answer, (answer) => {
      if (answer === undefined) return;
      const { generated_at, items } = answer.value;
      asOf = Date.parse(generated_at);
      const shown = answer.query === shownQuery ? (page.rows ?? []) : [];
      const isWhole = shown.length > 0 && waiting.length === 0;
      const count = isWhole ? items.length : Math.max(rowsAtFirst, shown.length);
      const next = items.slice(0, count).map(viewOf);
      const rows = inOrder ? next : keepOrder(shown, next);
      waiting = items.slice(count);
      shownQuery = answer.query;
      inOrder = false;
      keepingFocus(() => setPage("rows", reconcile([...rows], { key: "id" })));
      revealMore();
    }),
  );
  return {
    rows: () => page.rows,
    reorderNext: () => {
      inOrder = true;
    },
  };
};

/** Runs `work` when the browser is idle, after 100 ms at the latest. Returns the function that cancels it. */
const whenIdle = (work: () => void): (() => void) => {
  if (!("requestIdleCallback" in window)) {
    const timer = setTimeout(work, 16);
    return () => clearTimeout(timer);
  }
  const callback = requestIdleCallback(work, { timeout: 100 });
  return () => cancelIdleCallback(callback);
};

/** Restores the focus, which a row loses when it moves in the document. */
const keepingFocus = (change: () => void): void => {
  const focused = document.activeElement;
  change();
  if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected)
    focused.focus({ preventScroll: true });
};
