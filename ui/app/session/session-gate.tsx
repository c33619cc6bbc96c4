import { type JSX, Match, Switch } from "solid-js";
import type { Scope } from "../../../proto/operator/scopes.ts";
import { useShownReports } from "../api/shown-reports.tsx";
import { LoadFailure } from "../design/load-failure.tsx";
import { usePageContext } from "./page-context.tsx";
import { SignInAgain } from "./session-end.tsx";

/** Shows its content once the session is known, marked as old after its end; without a session, a link that signs in and returns. */
export const SessionGate = (props: { children: JSX.Element }) => {
  const { state, session, reloadSession } = usePageContext();
  const reports = useShownReports();
  const problem = () => {
    const current = state();
    return current.status === "failed" ? current.problem : undefined;
  };
  return (
    <Switch>
      <Match when={session()}>
        <div
          class="shown"
          data-shown={state().status === "ended" || reports?.old() ? "stale" : undefined}
        >
          {props.children}
        </div>
      </Match>
      <Match when={state().status === "ended"}>
        <section class="notice" role="alert">
          <h1>Your session has ended</h1>
          <p>Sign in again to return to this page.</p>
          <SignInAgain />
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
            Your account does not have it. Scopes follow your directory groups: ask a directory
            administrator to add you, then wait for the next sync.
          </p>
          <a class="button" href="/">
            Show your scopes
          </a>
        </section>
      </Match>
    </Switch>
  );
};
