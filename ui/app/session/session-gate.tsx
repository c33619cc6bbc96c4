import { createSignal, type JSX, Match, Show, Switch } from "solid-js";
import type { Scope } from "#proto/operator/scopes.ts";
import { useShownReports } from "../api/live-report.tsx";
import { Button } from "../design/buttons.tsx";
import { Icon } from "../design/icon.tsx";
import {
  Banner,
  causeOf,
  LoadFailure,
  Notice,
  ReloadIfUnreadable,
  SignInAgain,
} from "../design/report-parts.tsx";
import { formatDuration } from "../format/format.ts";
import { usePageContext } from "./page-context.tsx";

/** The end of a session is announced this long before. */
const announceSeconds = 300;

/** Announces the end of the session five minutes before, and reports it once it has come, over a page that keeps what it shows. */
export const SessionEnd = () => {
  const { state, session, secondsLeft } = usePageContext();
  const [later, setLater] = createSignal(false);
  const endsSoon = () => (secondsLeft() ?? Number.POSITIVE_INFINITY) <= announceSeconds;
  return (
    <Switch>
      <Match when={state().status === "ended" && session()}>
        <Banner role="alert">
          <span>Your session has ended: this page is old. Text that you typed is kept.</span>
          <SignInAgain />
        </Banner>
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
          <Button onClick={() => setLater(true)}>Later</Button>
        </div>
      </Match>
    </Switch>
  );
};

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
        <Notice level="h1" title="Your session has ended" isFault>
          <p>Sign in again to return to this page.</p>
          <SignInAgain />
        </Notice>
      </Match>
      <Match when={problem()}>
        <LoadFailure
          what="page"
          level="h1"
          problem={problem()}
          onRetry={() => void reloadSession()}
        />
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
        <Notice
          level="h1"
          title={
            <>
              This page needs the scope <code>{props.scope}</code>
            </>
          }
          href="/"
          link="Show your scopes"
        >
          <p>
            Your account does not have it. Scopes follow your directory groups: ask a directory
            administrator to add you, then wait for the next sync.
          </p>
        </Notice>
      </Match>
    </Switch>
  );
};

/** Reports over the page that something on it is old, unless that part says so itself. */
export const OldData = () => {
  const reports = useShownReports();
  const { state } = usePageContext();
  return (
    // After the session's end, its own banner says so.
    <Show when={state().status !== "ended" && reports.old()}>
      {(report) => (
        <p class="banner">
          <Icon name="warning" />
          <span>
            <span role="status">{causeOf(report())}This page shows old data.</span> Updated{" "}
            {formatDuration(report().ageSeconds() ?? 0)} ago.
          </span>
          <ReloadIfUnreadable problem={report().state().problem} />
        </p>
      )}
    </Show>
  );
};
