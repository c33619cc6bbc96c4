import { type Accessor, createEffect, on, onCleanup } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import type { FleetHealthReport } from "../../../../proto/fleet-health/report.ts";
import type { FleetHealthRow } from "../../../../proto/fleet-health/row.ts";
import type { LiveReport } from "../../live/create-report.ts";
import { keepOrder, type RowView, rowView } from "./row-view.ts";

/** The rows of a page of the report. */
export interface PageRows {
  /** Those of the newest answer; undefined before the first. After another query they arrive a few at a time. */
  rows: Accessor<readonly RowView[] | undefined>;
  /** Takes the next answer's own order, as a person who asks for it expects. */
  orderAnew(): void;
}

/** More than a screen holds at first, then a few whenever the browser is idle: two hundred at once would freeze a slow machine. */
const rowsAtOnce = 16;
const rowsWhenIdle = 3;

/**
 * The rows of a report, updated in place: a row keeps its element, its focus and, while nobody asked for another order, its position.
 */
export const createRows = (report: LiveReport<FleetHealthReport>): PageRows => {
  const [page, setPage] = createStore<{ rows: RowView[] | undefined }>({ rows: undefined });
  /** What is not on the page yet, in its order. */
  let waiting: FleetHealthRow[] = [];
  let asOf = 0;
  let shownQuery: string | undefined;
  let inOrder = false;
  let idle: (() => void) | undefined;

  const viewOf = (item: FleetHealthRow): RowView => rowView(item, asOf);
  const revealMore = (): void => {
    idle?.();
    if (waiting.length === 0) return;
    idle = whenIdle(() => {
      const views = waiting.splice(0, rowsWhenIdle).map(viewOf);
      setPage("rows", (rows = []) => [...rows, ...views]);
      revealMore();
    });
  };
  onCleanup(() => idle?.());

  createEffect(
    on(report.answer, (answer) => {
      if (answer === undefined) return;
      const { generated_at, items } = answer.value;
      asOf = Date.parse(generated_at);
      const shown = answer.query === shownQuery ? (page.rows ?? []) : [];
      const isWhole = shown.length > 0 && waiting.length === 0;
      const count = isWhole ? items.length : Math.max(rowsAtOnce, shown.length);
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
    orderAnew: () => {
      inOrder = true;
    },
  };
};

/** Calls back after the next frame, when nothing else is to be done, at the latest after 100 ms. Gives what calls it off. */
const whenIdle = (work: () => void): (() => void) => {
  if (!("requestIdleCallback" in window)) {
    const timer = setTimeout(work, 16);
    return () => clearTimeout(timer);
  }
  const callback = requestIdleCallback(work, { timeout: 100 });
  return () => cancelIdleCallback(callback);
};

/** A row that moves in the document loses the focus: it is given back. */
const keepingFocus = (change: () => void): void => {
  const focused = document.activeElement;
  change();
  if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected)
    focused.focus({ preventScroll: true });
};
