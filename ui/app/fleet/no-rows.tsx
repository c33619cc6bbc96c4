import { Match, Show, Switch } from "solid-js";
import { InventoryReport } from "#proto/inventory/inventory.ts";
import type { ApiProblem } from "../api/api-client.ts";
import { createReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { lazyPart } from "../design/lazy-part.tsx";
import { LoadFailure, Notice } from "../design/report-parts.tsx";
import { plainText } from "../format/format.ts";
import {
  defaultView,
  type FleetView,
  nameIn,
  viewPath,
  withFilter,
  withPage,
  withTime,
} from "./view/view-state.ts";

// Loaded on demand: it is needed only on a fleet's first day.
const FirstHost = lazyPart(
  "The first steps",
  async () => (await import("./first-host.tsx")).FirstHost,
);

/** Replaces the table: why there are no rows, and the next step. */
export const NoRows = (props: { problem?: ApiProblem; view: FleetView; onRetry: () => void }) => (
  <div class="no-rows">
    <Switch fallback={<NoHosts view={props.view} />}>
      <Match when={props.problem?.status === 403}>
        <Notice
          title={
            <>
              This report needs the scope <code>audit</code>
            </>
          }
          isFault
          href="/"
          link="Show your scopes"
        >
          <p>Your scopes have changed since this page was loaded.</p>
        </Notice>
      </Match>
      <Match when={props.problem}>
        {(problem) => (
          <LoadFailure what="report" level="h2" problem={problem()} onRetry={props.onRetry}>
            <Show
              when={problem().status === 422}
              fallback={<p>The page retries by itself unless updates are paused.</p>}
            >
              <a class="button" href={viewPath(defaultView)}>
                Show the whole fleet
              </a>
            </Show>
          </LoadFailure>
        )}
      </Match>
    </Switch>
  </div>
);

/** Says which hosts of the inventory have a text in their name and never enrolled; nothing without one. */
const ExpectedHosts = (props: { name: string }) => {
  const report = createReport({
    schema: InventoryReport,
    path: () =>
      withQuery("/api/core/collector/inventory", { status: "missing", q: props.name, limit: 5 }),
  });
  const names = () => report.current()?.items.map(({ name }) => plainText(name)) ?? [];
  return (
    <Show when={names().length > 0}>
      <p>
        Expected by the <a href="/access/inventory?status=missing">inventory</a>, and never
        enrolled: {names().join(", ")}
        {report.current()?.next_cursor ? " and others" : ""}.
      </p>
    </Show>
  );
};

const NoHosts = (props: { view: FleetView }) => (
  <Switch fallback={<FirstHost />}>
    <Match when={props.view.cursor !== undefined}>
      <Notice
        title="This page is now empty"
        href={viewPath(withPage(props.view))}
        link="First page"
      >
        <p>Its hosts have moved to another page, or no longer match the filters.</p>
      </Notice>
    </Match>
    <Match when={Object.keys(props.view.filter).length > 0}>
      <Notice
        title="No host matches"
        href={viewPath(withFilter(props.view, {}))}
        link="Clear all filters"
      >
        <p>Remove a filter above, or clear them all.</p>
        <Show when={nameIn(props.view)}>{(name) => <ExpectedHosts name={name()} />}</Show>
      </Notice>
    </Match>
    <Match when={props.view.at}>
      <Notice
        title="No host was enrolled then"
        href={viewPath(withTime(props.view))}
        link="Back to now"
      />
    </Match>
  </Switch>
);
