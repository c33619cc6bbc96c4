import { type JSX, Match, Switch } from "solid-js";
import type { Scope } from "../../../proto/operator/scopes.ts";
import { useSurroundings } from "./session-context.tsx";

/** What it contains, for who holds the scope; for others, which scope is missing and how it is had. */
export const RequiresScope = (props: { scope: Scope; children: JSX.Element }) => {
  const { known } = useSurroundings();
  return (
    <Switch>
      <Match when={known()?.scopes.includes(props.scope)}>{props.children}</Match>
      <Match when={known()}>
        <section class="notice">
          <h1>
            This page needs the scope <code>{props.scope}</code>
          </h1>
          <p>
            Your account does not hold it. Scopes follow your directory groups: ask an administrator of the directory to
            add you, and wait for the next sync.
          </p>
          <a class="button" href="/">
            See what you hold
          </a>
        </section>
      </Match>
    </Switch>
  );
};
