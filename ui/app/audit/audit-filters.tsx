import { createSignal, For, Show } from "solid-js";
import { auditActions } from "../../../proto/audit-actions.ts";
import { auditOutcomes } from "../../../proto/audit-event.ts";
import { Icon } from "../design/parts.tsx";
import { Chips } from "../design/records.tsx";
import { plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { type AuditView, auditPath, changeView, instantOf, minuteIn } from "./audit-view.ts";
import { changeActions } from "./event-view.ts";

const hour = 3600;

const ranges = [
  { seconds: hour, name: "Last hour" },
  { seconds: 24 * hour, name: "24 h" },
  { seconds: 7 * 24 * hour, name: "7 d" },
  { seconds: 30 * 24 * hour, name: "30 d" },
  { seconds: undefined, name: "All time" },
] as const;

/** Sets of actions that answer a question. */
const actionSets = [
  { name: "Everything", actions: [] },
  { name: "Changes", actions: changeActions },
  {
    name: "Revocations",
    actions: ["identity.revoke", "certificate.revoke", "bootstrap_token.revoke"],
  },
  {
    name: "Configs",
    actions: ["config.publish", "config.assign", "config.clear", "config.rollback"],
  },
  { name: "Sign-ins", actions: ["operator.sign_in", "operator.sign_out"] },
  { name: "Exports", actions: auditActions.filter((action) => action.endsWith(".export")) },
] as const;

const textFields = [
  { name: "Actor", hint: "Email or identity", part: "actor" },
  { name: "Not by", hint: "Email or identity", part: "notActor" },
  { name: "Target", hint: "Host, serial, config, policy", part: "target" },
  { name: "Reason", hint: "token_expired", part: "reason" },
  { name: "Text", hint: "Reason or details", part: "text" },
] as const;

const isSame = (some: readonly string[], others: readonly string[]) =>
  some.length === others.length && some.every((action) => others.includes(action));

/** The filters of the audit log: ranges and sets of actions as links, the rest as fields that apply on Enter or a choice. */
export const AuditFilters = (props: { view: AuditView; onChange: (view: AuditView) => void }) => {
  const change = (part: Parameters<typeof changeView>[1]) =>
    props.onChange(changeView(props.view, part));
  const isRange = (seconds: number | undefined) =>
    props.view.withinSeconds === seconds &&
    props.view.since === undefined &&
    props.view.until === undefined;
  const without = () => props.view.notActions ?? [];
  const others = (shown: string) => {
    const left = without().filter((action) => action !== shown);
    return left.length === 0 ? undefined : left;
  };
  // Decided once: a field that is being typed in does not vanish.
  const isWide = matchMedia("(min-width: 721px)").matches;
  const hasFields = () => {
    const { notActions, actor, notActor, target, reason, text, outcome, since, until } = props.view;
    return [notActions, actor, notActor, target, reason, text, outcome, since, until].some(
      (part) => part !== undefined,
    );
  };
  const isFiltered = () =>
    Object.keys(changeView(props.view, {})).length > 1 || props.view.actions.length > 0;
  return (
    <section class="panel audit-filters" aria-label="Filters">
      <div class="audit-sets">
        <Chips
          label="Time range"
          chips={ranges.map(({ seconds, name }) => ({
            words: name,
            path: auditPath(
              changeView(props.view, {
                withinSeconds: seconds,
                since: undefined,
                until: undefined,
              }),
            ),
            isChosen: isRange(seconds),
          }))}
        />
        <Chips
          label="Sets of actions"
          chips={actionSets.map(({ name, actions }) => ({
            words: name,
            path: auditPath(changeView(props.view, { actions })),
            isChosen: isSame(actions, props.view.actions),
          }))}
        />
      </div>
      <Show when={without().length > 0}>
        <ul class="chips" aria-label="Actions that are left out">
          <For each={without()}>
            {(action) => (
              <li>
                <a
                  class="button"
                  href={auditPath(changeView(props.view, { notActions: others(action) }))}
                >
                  <Icon name="close" /> <span class="visually-hidden">Show again: </span>
                  {plainText(action)}
                </a>
              </li>
            )}
          </For>
        </ul>
      </Show>
      <details open={hasFields() || isWide}>
        <summary>More filters</summary>
        <div class="audit-fields">
          <label>
            Action
            <select
              class="input"
              onChange={({ currentTarget: { value } }) =>
                value === "*" || change({ actions: value === "" ? [] : [value] })
              }
            >
              <option value="" selected={props.view.actions.length === 0}>
                Any
              </option>
              <Show when={props.view.actions.length > 1}>
                <option value="*" selected>
                  {props.view.actions.length} actions
                </option>
              </Show>
              <For each={[...new Set([...auditActions, ...props.view.actions])]}>
                {(action) => (
                  <option
                    value={action}
                    selected={props.view.actions.length === 1 && props.view.actions[0] === action}
                  >
                    {action}
                  </option>
                )}
              </For>
            </select>
          </label>
          <label>
            Leave out
            <select
              class="input"
              onChange={({ currentTarget: { value } }) =>
                change({ notActions: value === "" ? undefined : [...without(), value] })
              }
            >
              <option value="" selected>
                {without().length === 0 ? "None" : "Show all actions again"}
              </option>
              <For each={auditActions.filter((action) => !without().includes(action))}>
                {(action) => <option value={action}>{action}</option>}
              </For>
            </select>
          </label>
          <label>
            Outcome
            <select
              class="input"
              onChange={({ currentTarget: { value } }) =>
                change({ outcome: auditOutcomes.find((outcome) => outcome === value) })
              }
            >
              <option value="" selected={props.view.outcome === undefined}>
                Any
              </option>
              <option value="success" selected={props.view.outcome === "success"}>
                Success
              </option>
              <option value="failure" selected={props.view.outcome === "failure"}>
                Failure
              </option>
            </select>
          </label>
          <For each={textFields}>
            {({ name, hint, part }) => (
              <TextField
                name={name}
                hint={hint}
                value={props.view[part]}
                onChange={(text) => change({ [part]: text })}
              />
            )}
          </For>
          <TimestampField
            name="From"
            value={props.view.since}
            onChange={(since) => change({ since, withinSeconds: undefined })}
          />
          <TimestampField
            name="Until"
            value={props.view.until}
            onChange={(until) => change({ until, withinSeconds: undefined })}
          />
          <Show when={isFiltered()}>
            <a class="button audit-clear" href="/audit">
              Clear all filters
            </a>
          </Show>
        </div>
      </details>
    </section>
  );
};

const TextField = (props: {
  name: string;
  hint: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) => (
  <label>
    {props.name}
    <input
      class="input"
      type="search"
      maxlength="256"
      placeholder={props.hint}
      autocomplete="off"
      value={props.value ?? ""}
      onChange={({ currentTarget: { value } }) =>
        props.onChange(value.trim() === "" ? undefined : value.trim())
      }
    />
  </label>
);

/** Minutes in the zone of the page. */
const TimestampField = (props: {
  name: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) => {
  const { times } = usePageContext();
  const [text, setText] = createSignal<string>();
  const shown = () => minuteIn(props.value, times.zone());
  return (
    <label>
      {props.name} ({times.zone() === "utc" ? "UTC" : "local time"})
      <input
        class="input"
        type="datetime-local"
        value={text() ?? shown()}
        onInput={({ currentTarget: { value } }) => setText(value)}
        onBlur={() => {
          const typed = text();
          setText(undefined);
          if (typed !== undefined && typed !== shown())
            props.onChange(instantOf(typed, times.zone()));
        }}
        onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
      />
    </label>
  );
};
