import {
  type Accessor,
  batch,
  createEffect,
  createSignal,
  on,
  onCleanup,
  type Setter,
} from "solid-js";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { LiveReport } from "#ui/app/api/live-report.tsx";
import { timeFrame, whenIdle } from "#ui/app/browser/when-idle.ts";
import type { TimeZone } from "#ui/app/format/format.ts";
import { keepOrder, type RowView, rowView } from "./row-view.ts";

/** A row of the page, which keeps its place in the document while its view changes. */
export interface LiveRow {
  readonly id: string;
  readonly view: Accessor<RowView>;
}

/** The rows of a page of the report. */
interface PageRows {
  /** The rows of the newest answer; undefined before the first. After another query they are added a few at a time. */
  rows: Accessor<readonly LiveRow[] | undefined>;
  /** Shows the next answer in its own order, which an operator who refreshes expects. */
  reorderNext(): void;
}

interface SettableRow extends LiveRow {
  readonly show: Setter<RowView>;
}

const createRow = (first: RowView): SettableRow => {
  const [view, show] = createSignal(first);
  return { id: first.id, view, show };
};

/** Returns how many rows a screen shows at first. The others wait until the page responds. */
const rowsAtFirst = () => Math.min(40, Math.max(8, Math.ceil((innerHeight - 320) / 52)));
/** The longest frame that adds rows, so that the page responds, and the most rows that a frame adds. */
const frameMs = 40;
const rowsAddedMax = 32;

/**
 * Updates the rows of a report in place: a row keeps its element, its focus and, unless the operator asked for another order, its
 * position.
 */
export const createRows = (
  report: LiveReport<FleetHealthReport>,
  zone: Accessor<TimeZone>,
): PageRows => {
  const [rows, setRows] = createSignal<readonly SettableRow[]>();
  /** Rows that are not on the page yet, in order. */
  let waiting: FleetHealthRow[] = [];
  let asOf = 0;
  let isPast = false;
  let shownQuery: string | undefined;
  let inOrder = false;
  let cancelIdle: (() => void) | undefined;
  let rowsNext = 4;

  const viewOf = (item: FleetHealthRow): RowView => rowView(item, asOf, zone(), isPast);
  const revealMore = () => {
    cancelIdle?.();
    if (waiting.length === 0) return;
    cancelIdle = whenIdle(() => {
      const added = waiting.splice(0, rowsNext);
      const finish = timeFrame();
      setRows((shown = []) => [...shown, ...added.map((item) => createRow(viewOf(item)))]);
      cancelIdle = finish((ms) => {
        if (ms > frameMs) rowsNext = Math.max(1, rowsNext >> 1);
        else if (ms < frameMs / 2) rowsNext = Math.min(rowsAddedMax, rowsNext * 2);
        revealMore();
      });
    });
  };
  onCleanup(() => cancelIdle?.());

  createEffect(
    on([report.answer, zone], ([answer]) => {
      if (answer === undefined) return;
      const { generated_at, at, items } = answer.value;
      asOf = Date.parse(generated_at);
      isPast = at !== undefined;
      const shown = answer.query === shownQuery ? (rows() ?? []) : [];
      const isWhole = shown.length > 0 && waiting.length === 0;
      const shownMax = isWhole ? items.length : Math.max(rowsAtFirst(), shown.length);
      const answered = items.slice(0, shownMax).map(viewOf);
      waiting = items.slice(shownMax);
      shownQuery = answer.query;
      const views = inOrder ? answered : keepOrder(shown, answered);
      inOrder = false;
      withFocusKept(() => batch(() => setRows((before = []) => updated(before, views))));
      revealMore();
    }),
  );
  return {
    rows,
    reorderNext: () => {
      inOrder = true;
    },
  };
};

/** Returns the rows of `views`, with the elements of those that were shown before. */
const updated = (
  before: readonly SettableRow[],
  views: readonly RowView[],
): readonly SettableRow[] => {
  const known = new Map(before.map((row) => [row.id, row]));
  const rows = views.map((view) => {
    const row = known.get(view.id);
    row?.show(view);
    return row ?? createRow(view);
  });
  return rows.length === before.length && rows.every((row, index) => row === before[index])
    ? before
    : rows;
};

/** Restores the focus, which a row loses when it moves in the document. */
const withFocusKept = (change: () => void) => {
  const focused = document.activeElement;
  change();
  if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected)
    focused.focus({ preventScroll: true });
};

/** How long after the last added row those off the screen are drawn, and how many at a time. */
const quietMs = 3000;
const rowsAtOnce = 8;

/**
 * Draws the rows of a table that are off the screen once it has been quiet, a few at a time, until the caller is disposed. Until then the
 * browser skips them (`content-visibility`), so that the page responds before rows that nobody sees are drawn. Afterwards it does not:
 * Chromium hides skipped rows from assistive technology.
 */
export const drawAhead = (body: HTMLTableSectionElement): void => {
  let cancel: () => void = () => {};
  const draw = () => {
    const skipped = [...body.querySelectorAll<HTMLElement>("tr:not([data-drawn])")].slice(
      0,
      rowsAtOnce,
    );
    if (skipped.length === 0) return;
    const finish = timeFrame();
    for (const row of skipped) row.dataset.drawn = "";
    cancel = finish(() => {
      cancel = whenIdle(draw);
    });
  };
  const wait = () => {
    cancel();
    const timer = setTimeout(() => {
      cancel = whenIdle(draw);
    }, quietMs);
    cancel = () => clearTimeout(timer);
  };
  const observer = new MutationObserver(wait);
  observer.observe(body, { childList: true });
  wait();
  onCleanup(() => {
    observer.disconnect();
    cancel();
  });
};
