import { useLocation } from "@solidjs/router";
import { type JSX, Match, Switch } from "solid-js";
import type { Scope } from "../../../proto/operator/scopes.ts";
import { LoadFailure } from "../design/load-failure.tsx";
import { usePageContext } from "./page-context.tsx";

/** Shows its content once the session is known, or a sign-in link that returns to the same address once it has ended. */
export const SessionGate = (props: { children: JSX.Element }) => {
  const { state, session, reloadSession } = usePageContext();
  const location = useLocation();
  const signInPath = () => `/api/auth/login?${new URLSearchParams({ return_to: location.pathname + location.search })}`;
  const problem = () => {
    const current = state();
    return current.status === "failed" ? current.problem : undefined;
  };
  return (
    <Switch>
      <Match when={state().status === "ended"}>
        <section class="notice" role="alert">
          <h1>Your session has ended</h1>
          <p>Sign in again to return to this page.</p>
          <a class="button button-primary" href={signInPath()} rel="external">
            Sign in again
          </a>
        </section>
      </Match>
      <Match when={problem()}>
        {(failed) => (
          <LoadFailure
            title={<h1>The page could not be loaded</h1>}
            problem={failed()}
            onRetry={() => void reloadSession()}
          />
        )}
      </Match>
      <Match when={session()}>{props.children}</Match>
    </Switch>
  );
};

/** Shows its content to an operator with the scope, and to others which scope is missing and how to get it. */
export const RequiresScope = (props: { scope: Scope; children: JSX.Element }) => {
  const { session } = usePageContext();
  return (
    <Switch>
      <Match when={session()?.scopes.includes(props.scope)}>{props.children}</Match>
      <Match when={session()}>
        <section class="notice">
          <h1>
            This page needs the scope <code>{props.scope}</code>
          </h1>
          <p>
            Your account does not have it. Scopes follow your directory groups: ask a directory administrator to add
            you, then wait for the next sync.
          </p>
          <a class="button" href="/">
            Show your scopes
          </a>
        </section>
      </Match>
    </Switch>
  );
};
