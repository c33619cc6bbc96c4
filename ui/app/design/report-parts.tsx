import { useLocation } from "@solidjs/router";
import { type Accessor, For, type JSX, Match, Show, Switch } from "solid-js";
import { Dynamic } from "solid-js/web";
import type { ApiProblem } from "../api/api-client.ts";
import { type LiveReport, UpdatesProvider, useUpdates } from "../api/live-report.tsx";
import { formatDuration, formatTimestamp, plainText, type TimeZone } from "../format/format.ts";
import { Button } from "./buttons.tsx";
import { Icon } from "./icon.tsx";

/** A box with a warning, announced when it appears. */
export const Banner = (props: { class?: string; role?: "alert"; children: JSX.Element }) => (
  <div class={`banner ${props.class ?? ""}`} role={props.role ?? "status"}>
    <Icon name="warning" />
    {props.children}
  </div>
);

/** Stands where something is not loaded yet. */
export const Loading = () => (
  <p class="page-loading" role="status">
    Loading
  </p>
);

/** Returns why a report is old, as a sentence with a space at its end. */
export const causeOf = ({
  state,
  paused,
}: Pick<LiveReport<unknown>, "state" | "paused">): string => {
  const { problem } = state();
  if (problem) return `${problem.message}. `;
  return paused() ? "Paused. " : "No answer yet. ";
};

/**
 * The age of a report, with buttons to pause and to refresh. Once the report is old, whatever the cause, this line becomes the banner
 * that says so, with the cause if it is known. Its height stays, so that nothing below moves.
 */
export const Freshness = (props: {
  report: LiveReport<unknown>;
  zone: TimeZone;
  onPause: () => void;
  onRefresh: () => void;
  /** Further controls. */
  children?: JSX.Element;
}) => {
  const { phase, ageSeconds } = props.report;
  const age = () => formatDuration(ageSeconds() ?? 0);
  return (
    <div class="freshness" data-stale={phase() === "stale" ? "" : undefined}>
      <Show when={phase() === "stale"}>
        <Icon name="warning" />
      </Show>
      <p>
        <span role="status">
          <Switch fallback={phase() === "loading" || phase() === "changing" ? "Loading" : ""}>
            <Match when={phase() === "stale"}>{causeOf(props.report)}These rows are old. </Match>
            <Match when={props.report.paused()}>Paused. </Match>
          </Switch>
        </span>
        <Show when={phase() !== "changing" && props.report.asOf()}>
          {(at) => (
            <time datetime={new Date(at()).toISOString()} title={formatTimestamp(at(), props.zone)}>
              {/* One text: the end of a text beside others moves with each second, which is a layout shift. */}
              {`Updated ${age()} ago`}
            </time>
          )}
        </Show>
      </p>
      <ReloadIfUnreadable problem={props.report.state().problem} />
      <Button
        class="button-icon"
        aria-pressed={props.report.paused()}
        onClick={() => props.onPause()}
      >
        <Icon name={props.report.paused() ? "play" : "pause"} />
        <span class="visually-hidden">Pause updates</span>
      </Button>
      <Button class="button-icon" title="Refresh (r)" onClick={() => props.onRefresh()}>
        <Icon name="refresh" />
        <span class="visually-hidden">Refresh</span>
      </Button>
      {props.children}
    </div>
  );
};

/**
 * A link that signs in again in this tab, and returns to this view with its query; with `prompt: "login"` the identity provider
 * authenticates the person anew.
 */
export const SignInAgain = (props: { prompt?: "login" }) => {
  const location = useLocation();
  const query = () =>
    new URLSearchParams({ return_to: location.pathname + location.search, ...props });
  return (
    <a class="button button-primary" href={`/api/auth/login?${query()}`} rel="external">
      Sign in again
    </a>
  );
};

/** The same link, if the server refused a change because the sign-in is too long ago. */
export const SignInIfOld = (props: { problem: ApiProblem }) => (
  <Show when={props.problem.code === "fresh_sign_in_required"}>
    {" "}
    Text that you typed is kept. <SignInAgain prompt="login" />
  </Show>
);

/** Why a request failed, and its id; what to do if a new sign-in is. */
export const Why = (props: { problem: ApiProblem }) => (
  <>
    {plainText(props.problem.message)}.
    <For each={props.problem.errors}>
      {({ path, message }) => (
        <>
          {" "}
          <code>{plainText(path)}</code> {plainText(message)}.
        </>
      )}
    </For>
    <Show when={props.problem.requestId}>
      {(id) => (
        <>
          {" "}
          Request <code>{plainText(id())}</code>
        </>
      )}
    </Show>
    <SignInIfOld problem={props.problem} />
  </>
);

/** Replaces content that could not be loaded: what failed, why, the id of the request, and a button that tries again. */
export const LoadFailure = (props: {
  /** Completes "The … could not be loaded". */
  what: string;
  /** Said in place of that. */
  title?: string | undefined;
  /** The title is a heading. */
  level?: "h1" | "h2" | "h3" | undefined;
  /** Nothing is shown without one. */
  problem: ApiProblem | undefined;
  onRetry: () => void;
  /** More to do than to try again. */
  children?: JSX.Element;
}) => {
  const title = () => props.title || `The ${props.what} could not be loaded`;
  return (
    <Show when={props.problem}>
      {(problem) => (
        <section class="notice" role="alert">
          <Show when={props.level} fallback={<p>{title()}.</p>}>
            <Dynamic component={props.level}>{title()}</Dynamic>
          </Show>
          <p>
            <Why problem={problem()} />
          </p>
          <div class="row">
            <Button onClick={() => props.onRetry()}>Try again</Button>
            <ReloadIfUnreadable problem={problem()} />
          </div>
          {props.children}
        </section>
      )}
    </Show>
  );
};

/** A part of a page that shows by its colours whether its report is old, or changes. */
export const Shown = (props: {
  by: Pick<LiveReport<unknown>, "phase">;
  class?: string;
  children: JSX.Element;
}) => (
  <div class={`shown ${props.class ?? ""}`} data-shown={props.by.phase()}>
    {props.children}
  </div>
);

/** Loads the page anew: an open page outlives an update of the server, which has other files and answers. */
export const ReloadButton = () => <Button onClick={() => location.reload()}>Reload</Button>;

/** The same button, if core answered with a success that this page cannot read. */
export const ReloadIfUnreadable = (props: { problem: ApiProblem | undefined }) => (
  <Show when={props.problem?.status === 200}>
    <ReloadButton />
  </Show>
);

/** Shows a report's value once it is there; until then that it is loading, or why it could not be loaded, with a button that tries again. */
export const Loaded = <Reported, Value = Reported>(props: {
  report: LiveReport<Reported>;
  /** What is shown of the report; by default its value, also that of the query before if it is the page's main content. */
  value?: Value | undefined;
  what: string;
  /** Said instead of that it could not be loaded, if core has no such thing: it answers 404, or 422 to an id that is none. */
  missing?: string;
  /** The value is the page's main content, so the failure gets a heading. */
  heading?: boolean;
  /** A link beside the button that tries again, to something that can be loaded. */
  instead?: { href: string; words: string };
  children: (value: Accessor<Value>) => JSX.Element;
}) => {
  const { paused } = useUpdates();
  const value = () => {
    if ("value" in props) return props.value;
    const { report, heading } = props;
    // Without a `value`, both types are the same.
    return (heading ? report.value() : report.current()) as Value | undefined;
  };
  return (
    <UpdatesProvider value={{ paused, asOf: props.report.asOf }}>
      <Switch
        fallback={
          <p class="page-loading" data-first={props.report.answer() ? undefined : ""}>
            Loading
          </p>
        }
      >
        <Match when={props.report.failure()}>
          {(problem) => (
            <LoadFailure
              what={props.what}
              title={notFound.has(problem().status) ? props.missing : undefined}
              level={props.heading ? "h2" : undefined}
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
          )}
        </Match>
        <Match when={value()}>{(known) => props.children(known as Accessor<Value>)}</Match>
      </Switch>
    </UpdatesProvider>
  );
};

const notFound: ReadonlySet<number> = new Set([404, 422]);

/** Each of some things as an item of a list; without any, the words of `none`. */
export const List = <Item,>(props: {
  of: readonly Item[];
  class?: string;
  none?: string;
  children: (item: Item) => JSX.Element;
}) => (
  <Show when={props.of.length > 0} fallback={props.none && <p class="quiet">{props.none}</p>}>
    <ul class={props.class}>
      <For each={props.of}>{(item) => <li>{props.children(item)}</li>}</For>
    </ul>
  </Show>
);

/** Replaces content: a message, and a link to the next step. */
export const Notice = (props: {
  title: JSX.Element;
  level?: "h1";
  /** It reports a fault. */
  isFault?: boolean;
  href?: string;
  /** The words of the link. */
  link?: string;
  children?: JSX.Element;
}) => (
  <section class="notice" role={props.isFault ? "alert" : undefined}>
    <Dynamic component={props.level ?? "h2"}>{props.title}</Dynamic>
    {props.children}
    <Show when={props.href}>
      {(href) => (
        <a class="button" href={href()}>
          {props.link}
        </a>
      )}
    </Show>
  </section>
);

/** A part of a page under a heading that names it. */
export const Section = (props: {
  id: string;
  title: JSX.Element;
  /** It is a part of a host, and closer than others. */
  level?: "h2" | "h3";
  class?: string;
  /** Links beside the heading. */
  tools?: JSX.Element;
  children: JSX.Element;
}) => {
  const heading = () => (
    <Dynamic component={props.level ?? "h2"} id={props.id}>
      {props.title}
    </Dynamic>
  );
  return (
    <section
      class={`${props.level ? "page-section" : "stack gap-3"} ${props.class ?? ""}`}
      aria-labelledby={props.id}
    >
      <Show when={props.tools} fallback={heading()}>
        <div class="page-tools">
          {heading()}
          <div class="page-tools-end">{props.tools}</div>
        </div>
      </Show>
      {props.children}
    </section>
  );
};
