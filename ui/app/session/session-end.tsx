import { useLocation } from "@solidjs/router";
import { createSignal, Match, Switch } from "solid-js";
import { Icon } from "../design/icon.tsx";
import { formatDuration } from "../format/format.ts";
import { usePageContext } from "./page-context.tsx";

/** The end of a session is announced this long before. */
const announceSeconds = 300;

/** A link that signs in again in this tab, and returns to this view with its query. */
export const SignInAgain = () => {
  const location = useLocation();
  const path = () =>
    `/api/auth/login?${new URLSearchParams({ return_to: location.pathname + location.search })}`;
  return (
    <a class="button button-primary" href={path()} rel="external">
      Sign in again
    </a>
  );
};

/** Announces the end of the session five minutes before, and reports it once it has come, over a page that keeps what it shows. */
export const SessionEnd = () => {
  const { state, session, secondsLeft } = usePageContext();
  const [later, setLater] = createSignal(false);
  const endsSoon = () => (secondsLeft() ?? Number.POSITIVE_INFINITY) <= announceSeconds;
  return (
    <Switch>
      <Match when={state().status === "ended" && session()}>
        <div class="banner" role="alert">
          <Icon name="warning" />
          <span>
            Your session has ended: what this page shows is old. Text that you typed is kept.
          </span>
          <SignInAgain />
        </div>
      </Match>
      <Match when={endsSoon() && !later()}>
        <div class="banner">
          <Icon name="info" />
          <span>
            <span role="status">Your session ends soon</span>, in{" "}
            {formatDuration(secondsLeft() ?? 0)}. Sign in again to continue in this view; text that
            you typed is kept.
          </span>
          <SignInAgain />
          <button class="button" type="button" onClick={() => setLater(true)}>
            Later
          </button>
        </div>
      </Match>
    </Switch>
  );
};
