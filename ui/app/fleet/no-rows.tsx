import { ErrorBoundary, lazy, Match, Show, Suspense, Switch } from "solid-js";
import type { ApiProblem } from "../api/api-client.ts";
import { LoadFailure, PartFailed } from "../design/report-parts.tsx";
import {
  defaultView,
  type FleetView,
  viewPath,
  withFilter,
  withPage,
  withTime,
} from "./view/view-state.ts";

// Loaded on demand: a fleet is without hosts for one day.
const FirstHost = lazy(async () => ({ default: (await import("./first-host.tsx")).FirstHost }));

/** Replaces the table: why there are no rows, and the next step. */
export const NoRows = (props: { problem?: ApiProblem; view: FleetView; onRetry: () => void }) => (
  <div class="no-rows">
    <Switch>
      <Match when={props.problem?.status === 403}>
        <section class="notice" role="alert">
          <h2>
            This report needs the scope <code>audit</code>
          </h2>
          <p>Your scopes have changed since this page was loaded.</p>
          <a class="button" href="/">
            Show your scopes
          </a>
        </section>
      </Match>
      <Match when={props.problem}>
        {(problem) => (
          <LoadFailure
            title={<h2>The report could not be loaded</h2>}
            problem={problem()}
            onRetry={props.onRetry}
          >
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
      <Match when={props.view.cursor !== undefined}>
        <section class="notice">
          <h2>This page is now empty</h2>
          <p>Its hosts have moved to another page, or no longer match the filters.</p>
          <a class="button" href={viewPath(withPage(props.view))}>
            First page
          </a>
        </section>
      </Match>
      <Match when={Object.keys(props.view.filter).length > 0}>
        <section class="notice">
          <h2>No host matches</h2>
          <p>Remove a filter above, or clear them all.</p>
          <a class="button" href={viewPath(withFilter(props.view, {}))}>
            Clear all filters
          </a>
        </section>
      </Match>
      <Match when={props.view.at}>
        <section class="notice">
          <h2>No host was enrolled then</h2>
          <a class="button" href={viewPath(withTime(props.view))}>
            Back to now
          </a>
        </section>
      </Match>
      <Match when={true}>
        <ErrorBoundary fallback={<PartFailed what="The first steps" />}>
          <Suspense>
            <FirstHost />
          </Suspense>
        </ErrorBoundary>
      </Match>
    </Switch>
  </div>
);
