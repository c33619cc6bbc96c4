import { type Accessor, type JSX, Match, Show, Switch } from "solid-js";
import type { LiveReport } from "../api/create-report.ts";
import { LoadFailure } from "./load-failure.tsx";

/** Shows a report's value once it is there; until then that it is loading, or why it could not be loaded, with a button that tries again. */
export const Loaded = <Value extends object>(props: {
  report: LiveReport<unknown>;
  value: Value | undefined;
  /** Completes "The … could not be loaded". */
  what: string;
  /** Said instead if core has no such thing: it answers 404, or 422 to an id that is none. */
  missing?: string;
  /** The value is the page's main content, so the failure gets a heading. */
  heading?: boolean;
  /** A link beside the button that tries again, to something that can be loaded. */
  instead?: { href: string; words: string };
  children: (value: Accessor<Value>) => JSX.Element;
}) => (
  <Switch fallback={<p class="page-loading">Loading</p>}>
    <Match when={props.report.phase() === "failed" && props.report.state().problem}>
      {(problem) => {
        const title = () =>
          (notFound.has(problem().status ?? 0) && props.missing) ||
          `The ${props.what} could not be loaded`;
        return (
          <LoadFailure
            title={
              <Show when={props.heading} fallback={<p>{title()}.</p>}>
                <h2>{title()}</h2>
              </Show>
            }
            problem={problem()}
            onRetry={props.report.refresh}
          >
            <Show when={props.instead}>
              {(link) => (
                <a class="button" href={link().href}>
                  {link().words}
                </a>
              )}
            </Show>
          </LoadFailure>
        );
      }}
    </Match>
    <Match when={props.value}>{(value) => props.children(value)}</Match>
  </Switch>
);

const notFound: ReadonlySet<number> = new Set([404, 422]);
