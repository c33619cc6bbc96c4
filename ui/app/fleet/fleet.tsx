import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, createSignal, lazy, Match, Show, Switch } from "solid-js";
import { FleetFacets } from "../../../proto/fleet-health/facets.ts";
import { narrowFilter } from "../../../proto/fleet-health/narrow-filter.ts";
import { FleetHealthReport } from "../../../proto/fleet-health/report.ts";
import { createReport } from "../api/live-report.tsx";
import { createShortcuts } from "../browser/shortcuts.ts";
import { FleetSentence } from "../completeness/fleet-sentence.tsx";
import { Icon } from "../design/parts.tsx";
import { LazyPart } from "../design/report-parts.tsx";
import { InventoryLine } from "../inventory/inventory-line.tsx";
import { canAsk, usePageContext } from "../session/page-context.tsx";
import { FleetCharts } from "./charts/fleet-charts.tsx";
import { typicalRenewalSeconds } from "./charts/layouts.ts";
import { fleetShortcuts, rowLink, ShortcutHelp } from "./fleet-shortcuts.tsx";
import { FactorsMenu, FleetAge, HistoryPart, QuestionMenus } from "./menus.tsx";
import { QueryBar } from "./query-language/query-bar.tsx";
import { StateBar, StateLegend, SummaryLine } from "./summary/summary.tsx";
import { fleetValues, hostsInStates } from "./summary/summary-view.ts";
import { createRows } from "./table/create-rows.ts";
import { FleetTable } from "./table/fleet-table.tsx";
import { createTablePreferences } from "./table/table-preferences.ts";
import { ExportMenu, Pager, PreferencesMenu, WatchLink } from "./table/table-tools.tsx";
import { createListHistory } from "./view/create-list-history.ts";
import {
  type FleetView,
  facetsPath,
  parseView,
  reportPath,
  sortPath,
  viewPath,
  withFilter,
  withRow,
  withTime,
} from "./view/view-state.ts";

/** The same for the table and the charts, so that figures side by side have one age. */
const refreshIntervalMs = 10_000;
/** The past does not change. */
const pastIntervalMs = 86_400_000;

// Loaded on demand: its dialog weighs a quarter of the page, and most visits open no row.
const Notices = lazy(async () => ({ default: (await import("./summary/notices.tsx")).Notices }));
const NoRows = lazy(async () => ({ default: (await import("./no-rows.tsx")).NoRows }));
const RefusedHosts = lazy(async () => ({
  default: (await import("../host/host-events.tsx")).RefusedHosts,
}));
const RowDrawer = lazy(async () => ({
  default: (await import("./drawer/row-drawer.tsx")).RowDrawer,
}));

/** `/fleet`: which hosts need attention, and why, under the view of the address. */
export const Fleet = () => {
  const { session, shortcuts: shortcutSwitch, times } = usePageContext();
  const location = useLocation();
  const navigate = useNavigate();
  const [paused, setPaused] = createSignal(false);
  const [preferences, setPreferences] = createTablePreferences();

  const view = createMemo(() => parseView(location.search));
  const intervalMs = () => (view().at === undefined ? refreshIntervalMs : pastIntervalMs);
  const report = createReport({
    schema: FleetHealthReport,
    path: createMemo(() => reportPath(view())),
    intervalMs,
    paused,
    showsAge: true,
  });
  const facets = createReport({
    schema: FleetFacets,
    path: createMemo(() => facetsPath(view())),
    intervalMs,
    paused,
    showsAge: true,
  });
  const answer = () => report.answer()?.value;
  const page = createRows(report, times.zone);
  const refresh = () => {
    page.reorderNext();
    report.refresh();
    facets.refresh();
  };
  const { trail, isPageLost, dismiss, closeDrawer } = createListHistory(view, report);
  /** No host is enrolled: the first steps stand alone, without figures of nothing. */
  const isEmptyFleet = () => page.rows()?.length === 0 && isAnswered() && !isNarrowed(view());
  const isAnswered = () => report.phase() === "fresh" || report.phase() === "stale";

  const total = () => hostsInStates(answer()?.summary, view().filter.states);
  const rowBase = createMemo(() => viewPath(withRow(view())));
  const hrefOfRow = (id: string) => `${rowBase()}${rowBase().includes("?") ? "&" : "?"}id=${id}`;
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
    canAsk: canAsk(session()),
    showDrawer: (id) => navigate(hrefOfRow(id), { replace: true, scroll: false }),
  });
  createShortcuts(shortcuts, shortcutSwitch);
  // Stays mounted once opened, so that it closes by itself.
  const hasDrawer = createMemo((had: boolean) => had || view().rowId !== undefined, false);
  const lastRowId = createMemo((last: string | undefined) => view().rowId ?? last);

  const pager = (label: string) => (
    <Pager
      view={view()}
      trail={trail()}
      rows={report.current()?.items.length}
      total={total()}
      next={report.current()?.next_cursor ?? null}
      label={label}
    />
  );

  return (
    <div class="fleet" data-past={view().at}>
      <div class="fleet-head">
        <h1>Fleet</h1>
        {/* After a failure, figures of the previous view could be mistaken for those of this one. */}
        <Show when={report.phase() !== "failed"}>
          <div class="shown" data-shown={report.phase()}>
            <SummaryLine
              summary={answer()?.summary}
              isChanging={report.phase() === "changing"}
              view={view()}
            />
          </div>
        </Show>
        <FleetAge
          view={view()}
          report={report}
          zone={times.zone()}
          paused={paused()}
          onPause={() => setPaused(!paused())}
          onRefresh={refresh}
        />
      </div>
      <Show when={report.phase() !== "failed"}>
        <div class="shown" data-shown={report.phase()}>
          <Show when={!isEmptyFleet()}>
            <StateBar
              summary={answer()?.summary}
              isChanging={report.phase() === "changing"}
              view={view()}
            >
              <StateLegend thresholds={answer()?.thresholds} />
            </StateBar>
            {/* Each place is there from the start; what is in it, not before it is known that there are hosts. */}
            <Show
              when={view().at === undefined}
              fallback={
                <div class="fleet-history-place">
                  <Show when={answer()}>
                    <HistoryPart view={view()} paused={paused()} />
                  </Show>
                </div>
              }
            >
              <div class="fleet-completeness-place">
                <Show when={answer()}>
                  <QuestionMenus />
                  <FleetSentence paused={paused()} />
                  <InventoryLine paused={paused()} />
                </Show>
              </div>
            </Show>
            <div class="fleet-charts">
              <FleetCharts
                facets={facets.phase() === "failed" ? undefined : facets.answer()?.value}
                failed={facets.phase() === "failed"}
                renewalSeconds={renewalSeconds()}
                hrefOf={(figure) => {
                  const filter = narrowFilter(view().filter, figure);
                  return filter && viewPath(withFilter(view(), filter));
                }}
              />
              <Show
                when={report.phase() !== "stale" && ["stale", "failed"].includes(facets.phase())}
              >
                <p class="banner" role="status">
                  <Icon name="warning" />
                  {facets.phase() === "stale"
                    ? "The charts are old"
                    : "The charts could not be loaded"}
                  : {facets.state().problem?.message ?? "No answer yet"}.
                  <button class="button" type="button" onClick={() => facets.refresh()}>
                    Try again
                  </button>
                </p>
              </Show>
            </div>
          </Show>
        </div>
      </Show>
      <Show when={!isEmptyFleet()}>
        <div class="fleet-tools">
          <QueryBar
            ref={(input) => {
              searchInput = input;
            }}
            filter={view().filter}
            at={view().at}
            values={fleetValues(answer()?.summary, facets.answer()?.value)}
            onApply={(filter, at) =>
              navigate(viewPath(withFilter(withTime(view(), at), filter)), { scroll: false })
            }
          />
          {pager("Pages of the table")}
          <div class="fleet-tools-end">
            <FactorsMenu view={view()} />
            <Show when={session()?.scopes.includes("admin")}>
              <WatchLink view={view()} />
            </Show>
            <ExportMenu
              ref={(button) => {
                exportButton = button;
              }}
              view={view()}
              counts={facets.current()?.exports}
            />
            <PreferencesMenu
              preferences={preferences()}
              labelKeys={facets.answer()?.value.labels.map(({ key }) => key) ?? []}
              onChange={setPreferences}
            />
            <ShortcutHelp
              ref={(dialog) => {
                helpDialog = dialog;
              }}
              shortcuts={shortcuts}
              choice={shortcutSwitch}
            />
          </div>
        </div>
      </Show>
      <Show when={isPageLost()}>
        <p class="banner" role="status">
          <Icon name="warning" /> The page that this address named does not exist. This is the first
          page.
          <button class="button" type="button" onClick={dismiss}>
            Dismiss
          </button>
        </p>
      </Show>
      <Switch>
        <Match when={report.phase() === "failed" && report.state().problem}>
          {(problem) => (
            <LazyPart what="The reason of the failure">
              <NoRows problem={problem()} view={view()} onRetry={refresh} />
            </LazyPart>
          )}
        </Match>
        <Match when={isAnswered() && page.rows()?.length === 0}>
          <LazyPart what="The next step">
            <NoRows view={view()} onRetry={refresh} />
          </LazyPart>
        </Match>
        <Match when={true}>
          <div class="shown" data-shown={report.phase()}>
            <FleetTable
              rows={page.rows()?.length === 0 ? undefined : page.rows()}
              preferences={preferences()}
              sort={view().sort}
              order={view().order}
              zone={times.zone()}
              busy={report.phase() === "loading" || report.phase() === "changing"}
              currentId={view().rowId}
              hrefOfRow={hrefOfRow}
              hrefOfSort={(sort) => sortPath(view(), sort)}
            />
          </div>
          <Show when={(answer()?.items.length ?? 0) > 20}>
            {pager("Pages of the table, below")}
          </Show>
        </Match>
      </Switch>
      <Show when={nameIn(view())}>
        {(name) => (
          <LazyPart what="The refused enrollments">
            <RefusedHosts name={name()} />
          </LazyPart>
        )}
      </Show>
      {/* Behind all else, at the edge of the window: nothing moves when it arrives. */}
      <Show when={report.phase() !== "failed" && withNotices(answer())}>
        {(report) => (
          <LazyPart what="The notices of core">
            <Notices report={report()} />
          </LazyPart>
        )}
      </Show>
      <LazyPart what="The details">
        <Show when={hasDrawer()}>
          <RowDrawer
            id={view().rowId}
            at={view().at}
            paused={paused()}
            onClose={closeDrawer}
            returnFocus={() => rowLink(lastRowId())}
          />
        </Show>
      </LazyPart>
    </div>
  );
};

/** The view shows less than the whole fleet. */
const isNarrowed = ({ filter, cursor, at }: FleetView): boolean =>
  at !== undefined || cursor !== undefined || Object.keys(filter).length > 0;

/** The name of a host that a view of now looks for. */
const nameIn = ({
  filter: { text, device, identity, hostname },
  at,
}: FleetView): string | undefined =>
  at === undefined ? [text, device, identity, hostname].flat().find(Boolean) : undefined;

/** The report, if core says something of itself in it. */
const withNotices = (report: FleetHealthReport | undefined): FleetHealthReport | undefined =>
  report?.outages || report?.retention_paused || report?.exports ? report : undefined;
