import { useLocation, useNavigate } from "@solidjs/router";
import {
  createEffect,
  createMemo,
  createSignal,
  ErrorBoundary,
  lazy,
  Match,
  on,
  Show,
  Suspense,
  Switch,
} from "solid-js";
import { FleetFacets } from "../../../proto/fleet-health/facets.ts";
import { FleetHealthReport } from "../../../proto/fleet-health/report.ts";
import { Icon } from "../icons/icon.tsx";
import { createShortcuts } from "../keyboard/create-shortcuts.ts";
import { ShortcutHelp } from "../keyboard/shortcut-help.tsx";
import { createNow } from "../live/create-now.ts";
import { createReport } from "../live/create-report.ts";
import { useSurroundings } from "../session/session-context.tsx";
import { typicalRenewalSeconds } from "./charts/expiry-layout.ts";
import { FleetCharts } from "./charts/fleet-charts.tsx";
import { ExportMenu } from "./exports/export-menu.tsx";
import { fleetShortcuts, rowLink } from "./fleet-shortcuts.ts";
import { QueryBar } from "./query-language/query-bar.tsx";
import { Freshness } from "./summary/freshness.tsx";
import { StateBar } from "./summary/state-bar.tsx";
import { StateLegend } from "./summary/state-legend.tsx";
import { TruthLine } from "./summary/truth-line.tsx";
import { createLook } from "./table/create-look.ts";
import { createRows } from "./table/create-rows.ts";
import { FleetTable } from "./table/fleet-table.tsx";
import { TableMenu } from "./table/table-menu.tsx";
import { NoRows } from "./view/no-rows.tsx";
import { createPageTrail } from "./view/page-trail.ts";
import { Pager } from "./view/pager.tsx";
import {
  facetsPath,
  parseView,
  reportPath,
  viewPath,
  withFilter,
  withPage,
  withRow,
  withSort,
} from "./view/view-state.ts";

/** Of the table and of the charts alike: figures side by side are of one age. */
const refreshIntervalMs = 10_000;

// Its dialog weighs a quarter of all else, and most visits open no row.
const RowDrawer = lazy(async () => ({ default: (await import("./drawer/row-drawer.tsx")).RowDrawer }));

/** The fleet under the view that the address says, kept up to date. */
export const Fleet = () => {
  const { api } = useSurroundings();
  const location = useLocation();
  const navigate = useNavigate();
  const now = createNow();
  const [paused, setPaused] = createSignal(false);
  const [look, setLook] = createLook();

  const view = createMemo(() => parseView(location.search));
  const report = createReport({
    api,
    schema: FleetHealthReport,
    path: createMemo(() => reportPath(view())),
    intervalMs: refreshIntervalMs,
    paused,
  });
  const facets = createReport({
    api,
    schema: FleetFacets,
    path: createMemo(() => facetsPath(view())),
    intervalMs: refreshIntervalMs,
    paused,
  });
  const answer = () => report.answer()?.value;
  const page = createRows(report);
  const refresh = () => {
    page.orderAnew();
    report.refresh();
    facets.refresh();
  };
  const list = createMemo(() => viewPath(withPage(view())));
  const trail = createMemo(on(list, () => createPageTrail()));
  createEffect(on(answer, (value) => value && trail().note(view().cursor, value.next_cursor)));
  const isAnswered = () => report.phase() === "fresh" || report.phase() === "stale";

  const total = () => {
    const { by_state: counts } = answer()?.summary ?? {};
    if (counts === undefined) return 0;
    const states = view().filter.states ?? (Object.keys(counts) as (keyof typeof counts)[]);
    return states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
  };
  const rowBase = createMemo(() => viewPath(withRow(view())));
  const hrefOfRow = (id: string) => `${rowBase()}${rowBase().includes("?") ? "&" : "?"}id=${id}`;
  const known = () => {
    const value = facets.answer()?.value;
    const { summary } = answer() ?? {};
    return {
      ...(summary ? { states: summary.by_state } : {}),
      ...(value ? { drift: value.drift, versions: value.versions, platforms: value.platforms } : {}),
    };
  };
  const renewalSeconds = createMemo(() => typicalRenewalSeconds(answer()?.items ?? []));
  let searchInput: HTMLInputElement | undefined;
  let exportButton: HTMLButtonElement | undefined;
  let helpDialog: HTMLDialogElement | undefined;
  const shortcuts = fleetShortcuts({
    search: () => searchInput?.focus(),
    exports: () => exportButton?.click(),
    help: () => helpDialog?.showModal(),
    refresh,
    drawerId: () => view().rowId,
    showDrawer: (id) => navigate(hrefOfRow(id), { replace: true, scroll: false }),
  });
  const shortcutSwitch = createShortcuts(shortcuts);
  // Kept once it was there, so that closing it is its own affair.
  const hasDrawer = createMemo((had: boolean) => had || view().rowId !== undefined, false);
  const lastRowId = createMemo((last: string | undefined) => view().rowId ?? last);

  const pager = (label: string) => (
    <Pager
      view={view()}
      trail={trail()}
      rows={answer()?.items.length}
      total={total()}
      next={answer()?.next_cursor ?? null}
      label={label}
    />
  );

  return (
    <div class="fleet">
      <div class="fleet-head">
        <h1>Fleet</h1>
        <Freshness
          state={report.state()}
          phase={report.phase()}
          now={now()}
          paused={paused()}
          onPause={() => setPaused(!paused())}
          onRefresh={refresh}
        />
      </div>
      {/* Figures of the view before would pass for those of this one. */}
      <Show when={report.phase() !== "failed"}>
        <div class="fleet-truth">
          <TruthLine summary={answer()?.summary} view={view()} />
          <StateLegend thresholds={answer()?.thresholds} />
        </div>
        <StateBar summary={answer()?.summary} view={view()} />
        <div class="fleet-charts">
          <FleetCharts
            facets={facets.phase() === "failed" ? undefined : facets.answer()?.value}
            failed={facets.phase() === "failed"}
            renewalSeconds={renewalSeconds()}
            hrefOf={(change) => viewPath(withFilter(view(), { ...view().filter, ...change }))}
          />
          <Show when={report.state().problem === undefined && facets.state().problem}>
            {(problem) => (
              <p class="banner" role="status">
                <Icon name="warning" />
                {facets.phase() === "stale" ? "The charts are old" : "The charts could not be loaded"}:{" "}
                {problem().message}.
              </p>
            )}
          </Show>
        </div>
      </Show>
      <QueryBar
        ref={(input) => {
          searchInput = input;
        }}
        filter={view().filter}
        known={known()}
        onApply={(filter) => navigate(viewPath(withFilter(view(), filter)), { scroll: false })}
      />
      <div class="fleet-tools">
        {pager("Pages of the table")}
        <div class="fleet-tools-end">
          <ExportMenu
            ref={(button) => {
              exportButton = button;
            }}
            filter={view().filter}
            counts={facets.answer()?.value.exports}
          />
          <TableMenu look={look()} onChange={setLook} />
          <ShortcutHelp
            ref={(dialog) => {
              helpDialog = dialog;
            }}
            shortcuts={shortcuts}
            choice={shortcutSwitch}
          />
        </div>
      </div>
      <Switch>
        <Match when={report.phase() === "failed" && report.state().problem}>
          {(problem) => <NoRows problem={problem()} view={view()} onRetry={refresh} />}
        </Match>
        <Match when={isAnswered() && page.rows()?.length === 0}>
          <NoRows view={view()} onRetry={refresh} />
        </Match>
        <Match when={true}>
          <FleetTable
            rows={page.rows()?.length === 0 ? undefined : page.rows()}
            look={look()}
            sort={view().sort}
            order={view().order}
            busy={report.phase() === "loading" || report.phase() === "changing"}
            currentId={view().rowId}
            hrefOfRow={hrefOfRow}
            hrefOfSort={(sort) => viewPath(withSort(view(), sort))}
          />
          <Show when={(answer()?.items.length ?? 0) > 20}>{pager("Pages of the table, below")}</Show>
        </Match>
      </Switch>
      <ErrorBoundary fallback={<DrawerFailed />}>
        <Suspense>
          <Show when={hasDrawer()}>
            <RowDrawer
              id={view().rowId}
              api={api}
              paused={paused()}
              onClose={() => navigate(viewPath(withRow(view())), { scroll: false })}
              returnFocus={() => rowLink(lastRowId())}
            />
          </Show>
        </Suspense>
      </ErrorBoundary>
    </div>
  );
};

/** An open page outlives an update of the server, and its parts that were not loaded yet are gone by then. */
const DrawerFailed = () => (
  <div class="banner drawer-failed" role="alert">
    <Icon name="warning" /> The details could not be shown. The server may have a newer version of this page.
    <button class="button" type="button" onClick={() => location.reload()}>
      Reload
    </button>
  </div>
);
