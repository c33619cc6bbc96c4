import { ErrorBoundary, type JSX, Show, Suspense } from "solid-js";
import type { ApiProblem } from "../api/api-client.ts";
import { Icon } from "./icon.tsx";

/** Replaces content that could not be loaded: what failed, why, the id of the request, and a button that tries again. */
export const LoadFailure = (props: {
  title: JSX.Element;
  problem: ApiProblem;
  onRetry: () => void;
  /** More to do than to try again. */
  children?: JSX.Element;
}) => (
  <section class="notice" role="alert">
    {props.title}
    <p>
      {props.problem.message}.
      <Show when={props.problem.requestId}>
        {(id) => (
          <>
            {" "}
            Request <code>{id()}</code>
          </>
        )}
      </Show>
    </p>
    <button class="button" type="button" onClick={() => props.onRetry()}>
      Try again
    </button>
    {props.children}
  </section>
);

/** Reports that a part of the page could not be loaded: an open page outlives an update of the server, which has other files. */
export const PartFailed = (props: { what: string }) => (
  <div class="banner part-failed" role="alert">
    <Icon name="warning" /> {props.what} could not be loaded. The server may have a newer version of
    this page.
    <button class="button" type="button" onClick={() => location.reload()}>
      Reload
    </button>
  </div>
);

/** Shows a part whose script is loaded on demand: nothing until it is there, and what failed if it cannot be loaded. */
export const LazyPart = (props: { what: string; children: JSX.Element }) => (
  <ErrorBoundary fallback={<PartFailed what={props.what} />}>
    <Suspense>{props.children}</Suspense>
  </ErrorBoundary>
);
