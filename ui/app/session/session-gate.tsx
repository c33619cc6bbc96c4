import { useLocation } from "@solidjs/router";
import { type JSX, Match, Switch } from "solid-js";
import { signInPath } from "./session.ts";
import { useSurroundings } from "./session-context.tsx";

/** What it contains, once the session is known; the way to sign in again to the very same address once it has ended. */
export const SessionGate = (props: { children: JSX.Element }) => {
  const { session, known, reloadSession } = useSurroundings();
  const location = useLocation();
  const problem = () => {
    const state = session();
    return state.status === "failed" ? state.problem : undefined;
  };
  return (
    <Switch>
      <Match when={session().status === "ended"}>
        <section class="notice" role="alert">
          <h1>Your session has ended</h1>
          <p>Sign in again to go on where you were; the address of this page is kept.</p>
          <a class="button button-primary" href={signInPath(location)} rel="external">
            Sign in again
          </a>
        </section>
      </Match>
      <Match when={problem()}>
        {(failed) => (
          <section class="notice" role="alert">
            <h1>The page could not be loaded</h1>
            <p>{failed().message}.</p>
            <button class="button" type="button" onClick={() => void reloadSession()}>
              Try again
            </button>
          </section>
        )}
      </Match>
      <Match when={known()}>{props.children}</Match>
    </Switch>
  );
};
