import { useLocation, useNavigate } from "@solidjs/router";
import { createMemo, createSignal, For, type JSX, onCleanup, Show, splitProps } from "solid-js";
import { FleetFacets } from "#proto/fleet-health/facets.ts";
import { parseQuery, serialiseFilter } from "#proto/fleet-health/query-language/parse.ts";
import { parseDuration, writeDuration } from "#proto/fleet-health/query-language/quantities.ts";
import { attentionStates } from "#proto/fleet-health/vocabulary.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import { Watch, WatchDetail, WatchList } from "#proto/watch/watch.ts";
import { type ApiProblem, caughtProblem, parseAnswer } from "../api/api-client.ts";
import { createReport, neverMs } from "../api/live-report.tsx";
import { keepTyped } from "../browser/keep-typed.ts";
import { StateMark } from "../design/icon.tsx";
import { Chips } from "../design/record-list.tsx";
import { Loaded, Section, SignInIfOld } from "../design/report-parts.tsx";
import {
  aboutPath,
  defaultView,
  type FleetView,
  parseView,
  viewPath,
  watchPath,
  withFilter,
} from "../fleet/view/view-state.ts";
import { formatCountOf, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { RequiresScope } from "../session/session-gate.tsx";
import { RecordPage, Time } from "../shell/page.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import "./watches.css";
import "../design/page.css";

const watchesPath = "/api/core/collector/watches";

/** `/watches/new`: the form of a new watch of the hosts that the filter of the address selects. */
export const NewWatchPage = () => {
  createPageTitle(() => "New watch");
  const location = useLocation();
  return (
    <RequiresScope scope="admin">
      <div class="page">
        <div class="page-head">
          <h1>New watch</h1>
          <a class="button" href="/watches">
            Show all watches
          </a>
        </div>
        <p class="quiet">Fires when more hosts match than you allow, for as long as you set.</p>
        <Chips
          label="States to watch"
          chips={attentionStates.map((state) => ({
            words: <StateMark state={state} />,
            path: watchPath({ filter: { states: [state] } }),
            isChosen: location.search === `?state=${state}`,
          }))}
        />
        <Show when={`?${location.search}`} keyed>
          {(search) => <NewWatch filter={parseView(search.slice(1)).filter} />}
        </Show>
      </div>
    </RequiresScope>
  );
};

const NewWatch = (props: Pick<FleetView, "filter">) => {
  const { api, coreNow } = usePageContext();
  const navigate = useNavigate();
  const query = serialiseFilter(props.filter, new Date(coreNow()));
  const watch = { name: query.slice(0, 120), filter: query, more_than: 0, for_seconds: 600 };
  const create = async (typed: FormData) => {
    const body = definitionOf(typed);
    const response = await api.send(watchesPath, { method: "POST", body });
    navigate(`/watches/${parseAnswer(Watch, await response.json(), response).id}`);
  };
  return (
    <WatchForm button="Create the watch" isPrimary submit={create}>
      <DefinitionFields watch={{ ...watch, receivers: [] }} />
    </WatchForm>
  );
};

/** `/watches/{id}/change`: the forms that silence, change, test and delete a watch. */
export const ChangeWatchPage = () => (
  <RequiresScope scope="admin">
    <RecordPage
      noun="watch"
      allPath="/watches"
      schema={WatchDetail}
      // Only a conflict reads the watch again: nothing changes while somebody types.
      intervalMs={neverMs}
      titleOf={({ name }) => plainText(name)}
    >
      {(known, report) => <WatchForms watch={known()} onConflict={report.refresh} />}
    </RecordPage>
  </RequiresScope>
);

const WatchForms = (props: { watch: WatchDetail; onConflict: () => void }) => {
  const { api } = usePageContext();
  const navigate = useNavigate();
  const send = async (method: "POST" | "PUT" | "DELETE", path = "", body?: object) => {
    const { id } = props.watch;
    await api.send(`${watchesPath}/${id}${path}`, { method, body });
    navigate(method === "DELETE" ? "/watches" : `/watches/${id}`);
  };
  return (
    <>
      <Section id="silence" title="Silence">
        <WatchForm
          button="Silence"
          submit={(typed) =>
            send("POST", "/silence", {
              seconds: parseDuration(String(typed.get("seconds"))) ?? null,
              reason: typed.get("reason") || null,
            })
          }
        >
          <SilenceFields />
        </WatchForm>
        <Show when={props.watch.silence}>
          {(silence) => (
            <WatchForm
              button="End the silence now"
              submit={() => send("POST", "/silence", { seconds: 0 })}
            >
              <p>
                Silenced until <Time at={silence().until} />.
              </p>
            </WatchForm>
          )}
        </Show>
      </Section>
      <Section id="definition" title="Change">
        <WatchForm
          button="Save"
          isPrimary
          submit={(typed) =>
            send("PUT", "", { ...definitionOf(typed), revision: props.watch.revision })
          }
          onConflict={props.onConflict}
        >
          <DefinitionFields watch={props.watch} />
        </WatchForm>
      </Section>
      <Section id="test" title="Test">
        <WatchForm button="Send a test message" submit={() => send("POST", "/test")} />
      </Section>
      <Section id="delete" title="Delete">
        <WatchForm button="Delete" submit={() => send("DELETE")}>
          <label class="watch-choice">
            <input type="checkbox" required /> Delete the watch and its history
          </label>
        </WatchForm>
      </Section>
    </>
  );
};

const SilenceFields = () => {
  const { coreNow } = usePageContext();
  const [length, setLength] = createSignal("1h");
  const until = () => coreNow() + (parseDuration(length()) ?? 0) * 1000;
  return (
    <>
      <Field
        hint={
          <>
            Such as 90m, 8h or 3d, at most 30d. No message is sent until{" "}
            <Time at={new Date(until()).toISOString()} />.
          </>
        }
        name="seconds"
        required
        pattern={durationPattern}
        value={length()}
        onInput={(event) => setLength(event.currentTarget.value)}
      />
      <Field name="reason" maxlength="500" />
    </>
  );
};

/** A form that changes something in core. Shows why core rejected it, and keeps what was typed, also through a reload. */
const WatchForm = (props: {
  button: string;
  isPrimary?: boolean;
  submit: (typed: FormData) => Promise<void>;
  /** Another change came first. */
  onConflict?: () => void;
  children?: JSX.Element;
}) => {
  const [problem, setProblem] = createSignal<ApiProblem>();
  const onSubmit = async (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    try {
      await props.submit(new FormData(event.currentTarget));
    } catch (failure) {
      const rejection = caughtProblem(failure);
      setProblem(rejection);
      if (rejection.code === ("conflict" satisfies CoreProblemCode)) props.onConflict?.();
    }
  };
  return (
    <form
      class="watch-form"
      ref={(form) => keepTyped(form, props.button)}
      onSubmit={(event) => void onSubmit(event)}
    >
      <Show when={problem()}>
        {(known) => (
          <div class="banner" role="alert">
            <strong>Nothing was saved</strong>
            <For each={faultsOf(known())}>{(fault) => <p>{plainText(fault)}</p>}</For>
            <p>
              <SignInIfOld problem={known()} />
            </p>
          </div>
        )}
      </Show>
      {props.children}
      <button class="button" classList={{ "button-primary": props.isPrimary }} type="submit">
        {props.button}
      </button>
    </form>
  );
};

/** The labels of fields by their names, which are core's. */
const labels: Readonly<Record<string, string>> = {
  name: "Name",
  filter: "Hosts",
  more_than: "More than",
  for_seconds: "For",
  seconds: "For",
  reason: "Reason",
};

/** Returns the faults of a form by the labels of its fields, or why it was not accepted as a whole. */
const faultsOf = ({ errors, message }: ApiProblem) =>
  errors.length === 0
    ? [message]
    : errors.map(
        ({ path, message: fault }) =>
          `${labels[path] ?? (path.startsWith("receivers") ? "Send messages to" : path)}: ${fault}`,
      );

type Definition = Pick<Watch, "name" | "filter" | "more_than" | "for_seconds" | "receivers">;

const definitionOf = (typed: FormData) => ({
  name: typed.get("name"),
  filter: typed.get("filter"),
  more_than: Number(typed.get("more_than")),
  // Core rejects null with the reason.
  for_seconds: parseDuration(String(typed.get("for_seconds"))) ?? null,
  receivers: typed.getAll("receiver"),
});

/** Without a key for so long, a query counts as typed. */
const typedMs = 300;

const durationPattern = "[0-9]{1,9}[smhd]";

/** How many hosts match a query now, or what is wrong with it. */
const MatchingHosts = (props: { query: string }) => {
  const { coreNow } = usePageContext();
  const parsed = createMemo(() => parseQuery(props.query, new Date(coreNow())));
  const view = () => withFilter(defaultView, parsed().filter);
  const report = createReport({
    schema: FleetFacets,
    path: () => (parsed().faults.length > 0 ? undefined : aboutPath("facets", view())),
    intervalMs: 10_000,
  });
  return (
    <p class="watch-matching" role="status">
      <Show
        when={parsed().faults[0]}
        fallback={
          <Show
            when={report.current()}
            fallback={report.failure()?.message ?? "Counting the hosts…"}
          >
            {(facets) => (
              <>
                <a href={viewPath(view())}>{formatCountOf(facets().total, "host")}</a>{" "}
                {facets().total === 1 ? "matches" : "match"} now.
              </>
            )}
          </Show>
        }
      >
        {(fault) => fault().message}
      </Show>
    </p>
  );
};

/** The fields of what a watch counts, and who receives its messages. */
const DefinitionFields = (props: { watch: Definition }) => {
  const report = createReport({ schema: WatchList, path: () => `${watchesPath}?limit=1` });
  const receivers = () => report.value()?.receivers.map(({ name }) => name);
  const [query, setQuery] = createSignal(props.watch.filter);
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));
  const onTyped = ({ currentTarget: { value } }: { currentTarget: HTMLInputElement }) => {
    clearTimeout(timer);
    timer = setTimeout(() => setQuery(value), typedMs);
  };
  return (
    <>
      <Field name="name" required maxlength="120" value={props.watch.name} />
      <Field
        hint="In the query language of the fleet page; empty for every host."
        name="filter"
        maxlength="4096"
        spellcheck={false}
        value={props.watch.filter}
        onInput={onTyped}
      />
      <MatchingHosts query={query()} />
      <Field
        hint="Hosts that may match before it fires."
        name="more_than"
        type="number"
        required
        min="0"
        max="10000000"
        value={props.watch.more_than}
      />
      <Field
        hint="How long, such as 90s, 10m or 2h; 0s for at once."
        name="for_seconds"
        required
        pattern={durationPattern}
        value={writeDuration(props.watch.for_seconds)}
      />
      <fieldset>
        <legend>Send messages to</legend>
        <Loaded report={report} what="receivers" value={receivers()}>
          {(names) => (
            <For
              each={names()}
              fallback={
                <p class="quiet">
                  Core has no receiver: set SVC_WATCH_RECEIVERS_FILE. Until then only its page shows
                  it.
                </p>
              }
            >
              {(name) => (
                <label class="watch-choice">
                  <input
                    type="checkbox"
                    name="receiver"
                    value={name}
                    checked={props.watch.receivers.includes(name)}
                  />
                  {plainText(name)}
                </label>
              )}
            </For>
          )}
        </Loaded>
      </fieldset>
    </>
  );
};

const Field = (
  props: JSX.InputHTMLAttributes<HTMLInputElement> & { name: string; hint?: JSX.Element },
) => {
  const [own, input] = splitProps(props, ["hint"]);
  const hintId = () => (own.hint === undefined ? undefined : `${input.name}-hint`);
  return (
    <div>
      <label for={input.name}>{labels[input.name]}</label>
      <input
        class="input"
        id={input.name}
        autocomplete="off"
        aria-describedby={hintId()}
        {...input}
      />
      <Show when={own.hint}>
        <p class="quiet" id={hintId()}>
          {own.hint}
        </p>
      </Show>
    </div>
  );
};
