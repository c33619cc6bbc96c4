import { useBeforeLeave, useLocation, useNavigate } from "@solidjs/router";
import { createEffect, createMemo, createSignal, Match, onCleanup, Show, Switch } from "solid-js";
import { FleetFacets } from "#proto/fleet-health/facets.ts";
import { narrowFilter } from "#proto/fleet-health/narrow-filter.ts";
import { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { createReport, neverMs, UpdatesProvider } from "../api/live-report.tsx";
import { createMedia } from "../browser/create-media.ts";
import { createShortcuts } from "../browser/shortcuts.ts";
import { timeFrame } from "../browser/when-idle.ts";
import { Button } from "../design/buttons.tsx";
import { lazyPart } from "../design/lazy-part.tsx";
import { Banner, causeOf, ReloadIfUnreadable, Shown } from "../design/report-parts.tsx";
import { formatCount, formatCountOf } from "../format/format.ts";
import { canAsk, usePageContext } from "../session/page-context.tsx";
import { FleetCharts } from "./charts/fleet-charts.tsx";
import { typicalRenewalSeconds } from "./charts/layouts.ts";
import { fleetShortcuts, rowLink, ShortcutHelp } from "./fleet-shortcuts.tsx";
import { FactorsMenu, FleetAge, LazyHistory } from "./menus.tsx";
import { Outlook } from "./outlook.tsx";
import { QueryBar } from "./query-language/query-bar.tsx";
import { createTrends } from "./summary/create-trends.tsx";
import { StateBar, StateLegend, SummaryLine } from "./summary/summary.tsx";
import { fleetValues, hostsInStates } from "./summary/summary-view.ts";
import { createRows } from "./table/create-rows.ts";
import { FleetTable } from "./table/fleet-table.tsx";
import { createTablePreferences } from "./table/table-preferences.ts";
import { ExportMenu, Pager, PreferencesMenu, WatchLink } from "./table/table-tools.tsx";
import { createListHistory } from "./view/create-list-history.ts";
import {
  aboutPath,
  type FleetView,
  nameIn,
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

const RowDrawer = lazyPart(
  "The details",
  async () => (await import("./drawer/row-drawer.tsx")).RowDrawer,
);
const Notices = lazyPart(
  "The notices of core",
  async () => (await import("./summary/notices.tsx")).Notices,
);
const RefusedHosts = lazyPart(
  "The refused enrollments",
  async () => (await import("../audit/record-events.tsx")).RefusedHosts,
);
const loadNoRows = async () => (await import("./no-rows.tsx")).NoRows;
const FailedRows = lazyPart("The reason of the failure", loadNoRows);
const NoRows = lazyPart("The next step", loadNoRows);

/** `/fleet`: which hosts need attention, and why, under the view of the address. */
export const Fleet = () => {
  const fleet = createFleet();
  const { view, report, paused, answer } = fleet;
  return (
    <UpdatesProvider value={{ paused, asOf: () => Date.parse(answer()?.generated_at ?? "") }}>
      <div class="fleet stack" data-past={view().at}>
        <Head of={fleet} />
        <Show when={report.phase() !== "failed" && !fleet.isEmptyFleet()}>
          <Shown by={report}>
            <Overview of={fleet} />
          </Shown>
        </Show>
        <Show when={!fleet.isEmptyFleet()}>
          <Tools of={fleet} />
        </Show>
        <Show when={fleet.isPageLost()}>
          <Banner>
            That page does not exist. This is the first page.
            <Button onClick={fleet.dismiss}>Dismiss</Button>
          </Banner>
        </Show>
        <Rows of={fleet} />
        <Show when={nameIn(view())}>{(name) => <RefusedHosts name={name()} />}</Show>
        {/* Behind all else, at the edge of the window: nothing moves when it arrives. */}
        <Show when={report.phase() !== "failed" && withNotices(answer())}>
          {(report) => <Notices report={report()} />}
        </Show>
        <Drawer of={fleet} />
      </div>
    </UpdatesProvider>
  );
};

/** The controls that keys press, while they are on the page. */
interface Controls {
  search?: HTMLInputElement;
  exports?: HTMLButtonElement;
  help?: HTMLDialogElement;
}

/** Creates what the parts of the page share: the view, its reports and rows, navigation between views, and shortcuts. */
const createFleet = () => {
  const state = createView();
  const { view, page, report, facets } = state;
  const { session, shortcuts: choice } = usePageContext();
  const navigate = useNavigate();
  const rowBase = createMemo(() => viewPath(withRow(view())));
  const hrefOfRow = (id: string) => `${rowBase()}${rowBase().includes("?") ? "&" : "?"}id=${id}`;
  const show = (path: string, replace = false) => navigate(path, { replace, scroll: false });
  const refresh = () => {
    page.reorderNext();
    report.refresh();
    facets.refresh();
  };
  const controls: Controls = {};
  const shortcuts = fleetShortcuts({
    search: () => controls.search?.focus(),
    exports: () => controls.exports?.click(),
    help: () => controls.help?.showModal(),
    refresh,
    drawerId: () => view().rowId,
    canAsk: canAsk(session()),
    showDrawer: (id) => show(hrefOfRow(id), true),
  });
  createShortcuts(shortcuts, choice);
  return { ...state, hrefOfRow, show, refresh, controls, shortcuts };
};

/**
 * Draws a frame before the page shows another view, whose rows take long on a slow processor: an input is seen to work at once. Reports
 * whether other rows are about to come. An open drawer follows without delay, since the next key begins at its row.
 */
const createFrameBeforeView = (isOpen: () => boolean) => {
  const [isLeaving, setLeaving] = createSignal(false);
  let cancel = () => {};
  useBeforeLeave((event) => {
    cancel();
    const { to } = event;
    if (typeof to !== "string" || isOpen()) return;
    event.preventDefault();
    setLeaving(!/[?&]id=/.test(to));
    cancel = timeFrame()(() => {
      setLeaving(false);
      event.retry(true);
    });
  });
  onCleanup(() => cancel());
  return isLeaving;
};

/** Creates the view of the address, and its reports and rows. */
const createView = () => {
  const { times } = usePageContext();
  const location = useLocation();
  const [paused, setPaused] = createSignal(false);
  const view = createMemo(() => parseView(location.search));
  const options = {
    // The past does not change.
    intervalMs: () => (view().at === undefined ? refreshIntervalMs : neverMs),
    paused,
    showsAge: true,
  };
  const report = createReport({
    schema: FleetHealthReport,
    path: () => reportPath(view()),
    ...options,
  });
  const facets = createReport({
    schema: FleetFacets,
    path: () => aboutPath("facets", view()),
    ...options,
  });
  const page = createRows(report, times.zone);
  const isAnswered = () => report.phase() === "fresh" || report.phase() === "stale";
  const hasNoRows = () => isAnswered() && page.rows()?.length === 0;
  return {
    ...createListHistory(view, report),
    view,
    report,
    facets,
    page,
    paused,
    setPaused,
    hasNoRows,
    isLeaving: createFrameBeforeView(() => view().rowId !== undefined),
    preferences: createTablePreferences(),
    answer: () => report.answer()?.value,
    /** No host is enrolled: the first steps stand alone, without figures of nothing. */
    isEmptyFleet: () => hasNoRows() && !isNarrowed(view()),
    trendOf: createTrends(view, {
      isWhole: () => report.answer() !== undefined && !isNarrowed(view()),
      paused,
    }),
  };
};

/** The state that the parts of the page share. */
interface PartProps {
  of: ReturnType<typeof createFleet>;
}

/** The title, the fleet in one line, and the age of the page. */
const Head = (props: PartProps) => {
  const { view, report, answer, paused, setPaused, refresh } = props.of;
  return (
    <div class="fleet-head">
      <h1>Fleet</h1>
      {/* After a failure, figures of the previous view could be mistaken for those of this one. */}
      <Show when={report.phase() !== "failed"}>
        <Shown by={report}>
          <SummaryLine
            summary={answer()?.summary}
            isChanging={report.phase() === "changing"}
            view={view()}
            trendOf={props.of.trendOf}
          />
        </Shown>
      </Show>
      <FleetAge
        view={view()}
        report={report}
        onPause={() => setPaused(!paused())}
        onRefresh={refresh}
      />
    </div>
  );
};

/** The states, the charts and the outlook, or the history of a past view. A narrow screen shows one line of them until it is opened. */
const Overview = (props: PartProps) => {
  const { view, report, answer } = props.of;
  const isNarrow = createMedia("(max-width: 40em)");
  let details!: HTMLDetailsElement;
  createEffect(() => {
    if (!isNarrow()) details.open = true;
  });
  return (
    <details ref={details} class="fleet-overview">
      <summary>
        <Show when={answer()?.summary}>
          {(counts) =>
            `${formatCountOf(counts().enrolled, "host")}, ${formatCount(counts().needs_attention)} need attention`
          }
        </Show>
      </summary>
      <div class="stack">
        <StateBar
          summary={answer()?.summary}
          isChanging={report.phase() === "changing"}
          view={view()}
          trendOf={props.of.trendOf}
        >
          <StateLegend thresholds={answer()?.thresholds} />
        </StateBar>
        <Show when={view().at !== undefined}>
          {/* Its place is there from the start. */}
          <div class="fleet-history-place">
            <Show when={answer()}>
              <LazyHistory view={view()} />
            </Show>
          </div>
        </Show>
        <Charts of={props.of} />
      </div>
    </details>
  );
};

/** The charts of the facets and, of now, the outlook; and a banner when they are old or could not be loaded. */
const Charts = (props: PartProps) => {
  const { view, report, facets, answer } = props.of;
  const renewalSeconds = createMemo(() => typicalRenewalSeconds(answer()?.items ?? []));
  const hasFailed = () => facets.phase() === "failed";
  return (
    <div class="fleet-charts">
      <FleetCharts
        facets={hasFailed() ? undefined : facets.answer()?.value}
        failed={hasFailed()}
        renewalSeconds={renewalSeconds()}
        hrefOf={(figure) => {
          const filter = narrowFilter(view().filter, figure);
          return filter && viewPath(withFilter(view(), filter));
        }}
      />
      <Show when={view().at === undefined}>
        <Outlook trend={props.of.trendOf("incomplete")} />
      </Show>
      <Show when={report.phase() !== "stale" && ["stale", "failed"].includes(facets.phase())}>
        <Banner>
          {hasFailed() ? "The charts could not be loaded" : "The charts are old"}: {causeOf(facets)}
          <Button onClick={() => facets.refresh()}>Try again</Button>
          <ReloadIfUnreadable problem={facets.state().problem} />
        </Banner>
      </Show>
    </div>
  );
};

/** The query, the pages, and the menus of the table; the keys of the page press them. */
const Tools = (props: PartProps) => {
  const { session, shortcuts: choice } = usePageContext();
  const { view, facets, answer, show, controls, shortcuts } = props.of;
  const [preferences, setPreferences] = props.of.preferences;
  return (
    <div class="fleet-tools">
      <QueryBar
        ref={(input) => {
          controls.search = input;
        }}
        filter={view().filter}
        at={view().at}
        values={fleetValues(answer()?.summary, facets.answer()?.value)}
        onApply={(filter, at) => show(viewPath(withFilter(withTime(view(), at), filter)))}
      />
      <FleetPager of={props.of} label="Pages of the table" />
      <div class="fleet-tools-end">
        <FactorsMenu view={view()} />
        <Show when={session()?.scopes.includes("admin")}>
          <WatchLink view={view()} />
        </Show>
        <ExportMenu
          ref={(button) => {
            controls.exports = button;
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
            controls.help = dialog;
          }}
          shortcuts={shortcuts}
          choice={choice}
        />
      </div>
    </div>
  );
};

const FleetPager = (props: PartProps & { label: string }) => {
  const { view, report, answer, trail } = props.of;
  return (
    <Pager
      view={view()}
      trail={trail()}
      rows={report.current()?.items.length}
      total={hostsInStates(answer()?.summary, view().filter.states)}
      next={report.current()?.next_cursor ?? null}
      label={props.label}
    />
  );
};

/** The table of the hosts, or why there are no rows. */
const Rows = (props: PartProps) => {
  const { times } = usePageContext();
  const { view, report, page, answer, refresh } = props.of;
  const [preferences] = props.of.preferences;
  return (
    <Switch>
      <Match when={report.failure()}>
        {(problem) => <FailedRows problem={problem()} view={view()} onRetry={refresh} />}
      </Match>
      <Match when={props.of.hasNoRows()}>
        <NoRows view={view()} onRetry={refresh} />
      </Match>
      <Match when={true}>
        <Shown by={report}>
          <FleetTable
            rows={page.rows()?.length === 0 ? undefined : page.rows()}
            preferences={preferences()}
            sort={view().sort}
            order={view().order}
            zone={times.zone()}
            busy={props.of.isLeaving() || ["loading", "changing"].includes(report.phase())}
            currentId={view().rowId}
            hrefOfRow={props.of.hrefOfRow}
            hrefOfSort={(sort) => sortPath(view(), sort)}
          />
        </Shown>
        <Show when={(answer()?.items.length ?? 0) > 20}>
          <FleetPager of={props.of} label="Pages of the table, below" />
        </Show>
      </Match>
    </Switch>
  );
};

/** The drawer of a row. It stays mounted once opened, so that it closes by itself. */
const Drawer = (props: PartProps) => {
  const { view, closeDrawer } = props.of;
  const hasDrawer = createMemo((had: boolean) => had || view().rowId !== undefined, false);
  const lastRowId = createMemo((last: string | undefined) => view().rowId ?? last);
  return (
    <Show when={hasDrawer()}>
      <RowDrawer
        id={view().rowId}
        at={view().at}
        onClose={closeDrawer}
        returnFocus={() => rowLink(lastRowId())}
      />
    </Show>
  );
};

/** Reports whether the view shows less than the whole fleet. */
const isNarrowed = ({ filter, cursor, at }: FleetView) =>
  at !== undefined || cursor !== undefined || Object.keys(filter).length > 0;

/** Returns the report if it has notices of core. */
const withNotices = (report: FleetHealthReport | undefined): FleetHealthReport | undefined =>
  report?.outages || report?.retention_paused || report?.exports ? report : undefined;
