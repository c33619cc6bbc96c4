import { Match, Show, Switch } from "solid-js";
import type { ApiProblem } from "../../api/problem.ts";
import { defaultView, type FleetView, viewPath, withFilter, withPage } from "./view-state.ts";

const enrollCommand = `svc-collector enroll --core https://core.example.com --ingest core.example.com:8443 \\
  --token-file token --device-id "$(hostname)" --identity-prefix spiffe://example.com/collectors/ \\
  --ca-bundle ca.pem`;

/** In place of the table: why there is no row, and the next step. */
export const NoRows = (props: { problem?: ApiProblem; view: FleetView; onRetry: () => void }) => (
  <Switch>
    <Match when={props.problem?.status === 403}>
      <section class="notice no-rows" role="alert">
        <h2>
          Core refuses the report: the scope <code>audit</code> is missing
        </h2>
        <p>Your scopes have changed since this page was loaded.</p>
        <a class="button" href="/">
          See what you hold
        </a>
      </section>
    </Match>
    <Match when={props.problem}>
      {(problem) => (
        <section class="notice no-rows" role="alert">
          <h2>The report could not be loaded</h2>
          <p>
            {problem().message}.
            <Show when={problem().requestId}>
              {(id) => (
                <>
                  {" "}
                  Request <code>{id()}</code>
                </>
              )}
            </Show>
          </p>
          <p>Unless paused, the page keeps asking by itself.</p>
          <button class="button" type="button" onClick={() => props.onRetry()}>
            Try again
          </button>
          <Show when={problem().status === 422}>
            <a class="button" href={viewPath(defaultView)}>
              Show the whole fleet
            </a>
          </Show>
        </section>
      )}
    </Match>
    <Match when={props.view.cursor !== undefined}>
      <section class="notice no-rows">
        <h2>This page is empty by now</h2>
        <p>What stood here has moved to another page, or is filtered out.</p>
        <a class="button" href={viewPath(withPage(props.view))}>
          First page
        </a>
      </section>
    </Match>
    <Match when={Object.keys(props.view.filter).length > 0}>
      <section class="notice no-rows">
        <h2>No collector matches</h2>
        <p>Nothing in the fleet holds all of these filters at once. Take one away above, or all of them.</p>
        <a class="button" href={viewPath(withFilter(props.view, {}))}>
          Clear all filters
        </a>
      </section>
    </Match>
    <Match when={true}>
      <section class="notice no-rows">
        <h2>No host is enrolled yet</h2>
        <p>
          An administrator creates an enrollment policy and a bootstrap token; then, on the host, this enrolls it and
          writes its config:
        </p>
        <pre class="panel">
          <code>{enrollCommand}</code>
        </pre>
        <p>It appears here at once, as “Enrolling”.</p>
      </section>
    </Match>
  </Switch>
);
