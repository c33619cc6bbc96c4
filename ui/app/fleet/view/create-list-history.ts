import { useNavigate } from "@solidjs/router";
import { type Accessor, createEffect, createMemo, createSignal, on, untrack } from "solid-js";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { LiveReport } from "#ui/app/api/live-report.tsx";
import { readTabText, storeTabText } from "#ui/app/browser/stored-text.ts";
import { createPageTrail, type PageTrail } from "./page-trail.ts";
import { type FleetView, viewPath, withPage, withRow } from "./view-state.ts";

/** The way through the pages of the table and its drawer. */
interface ListHistory {
  trail: Accessor<PageTrail>;
  /** The address named a page that does not exist, and this is the first one instead; until it is dismissed or left. */
  isPageLost: Accessor<boolean>;
  dismiss(): void;
  /**
   * Closes the drawer. Goes back to the list that it was opened from, so that Back does not open it again; the drawer of a link is
   * replaced by its list.
   */
  closeDrawer(): void;
}

const storageKey = "fleet-pages";

/** Follows a view through its history. Core rejects a cursor of another order or deployment: then the first page replaces it. */
export const createListHistory = (
  view: Accessor<FleetView>,
  report: Pick<LiveReport<FleetHealthReport>, "answer" | "state">,
): ListHistory => {
  const navigate = useNavigate();
  const firstPage = createMemo(() => viewPath(withPage(view())));
  const trail = createMemo(
    on(firstPage, (path) =>
      createPageTrail(path, {
        read: () => readTabText(storageKey),
        write: (text) => storeTabText(storageKey, text),
      }),
    ),
  );
  createEffect(
    on(
      report.answer,
      (answer) => answer && trail().record(view().cursor, answer.value.next_cursor),
    ),
  );

  const [lostPage, setLostPage] = createSignal<string>();
  createEffect(() => {
    if (report.state().problem?.status !== 422 || view().cursor === undefined) return;
    setLostPage(firstPage());
    navigate(firstPage(), { replace: true, scroll: false });
  });

  const rowId = createMemo(() => view().rowId);
  let openedHere = false;
  let lastRowId = untrack(rowId);
  createEffect(() => {
    const id = rowId();
    if (id === undefined) openedHere = false;
    else if (lastRowId === undefined) openedHere = true;
    lastRowId = id;
  });

  return {
    trail,
    isPageLost: () =>
      lostPage() === firstPage() &&
      view().cursor === undefined &&
      report.state().problem === undefined,
    dismiss: () => setLostPage(undefined),
    closeDrawer: () =>
      openedHere
        ? navigate(-1)
        : navigate(viewPath(withRow(view())), { replace: true, scroll: false }),
  };
};
