import { createSignal, For, Show } from "solid-js";
import { auditActions, changeActions } from "#proto/audit-actions.ts";
import { auditOutcomes } from "#proto/audit-event.ts";
import type { QueryParams } from "../browser/with-query.ts";
import { Icon } from "../design/icon.tsx";
import { Chips } from "../design/records.tsx";
import { plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { type AddressList, capitalised } from "../shell/page.tsx";
import { instantOf, minuteIn } from "./audit-view.ts";

const hour = 3600;

const ranges = [
  { seconds: hour, name: "Last hour" },
  { seconds: 24 * hour, name: "24 h" },
  { seconds: 7 * 24 * hour, name: "7 d" },
  { seconds: 30 * 24 * hour, name: "30 d" },
  { seconds: null, name: "All time" },
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
  { name: "Actor", hint: "Email or identity", parameter: "actor" },
  { name: "Not by", hint: "Email or identity", parameter: "not_actor" },
  { name: "Target", hint: "Host, serial, config, policy", parameter: "target" },
  { name: "Reason", hint: "token_expired", parameter: "reason" },
  { name: "Text", hint: "Reason or details", parameter: "q" },
] as const;

const timeFields = [
  { name: "From", parameter: "since" },
  { name: "Until", parameter: "until" },
] as const;

/** The parameters with a field. */
const fieldParameters = [
  "not_action",
  "outcome",
  ...[...textFields, ...timeFields].map(({ parameter }) => parameter),
];

interface FilterProps {
  list: AddressList;
  onChange: (change: QueryParams) => void;
}

/** The filters of the audit log: ranges and sets of actions as links, the rest as fields that apply on Enter or a choice. */
export const AuditFilters = (props: FilterProps) => {
  // Decided once: a field that is being typed in does not vanish.
  const isWide = matchMedia("(min-width: 721px)").matches;
  const hasFields = () => fieldParameters.some((name) => props.list.params().has(name));
  return (
    <section class="panel stack gap-1 audit-filters" aria-label="Filters">
      <div class="audit-sets">
        <Chips
          label="Time range"
          chips={ranges.map(({ seconds, name }) =>
            props.list.chip(name, { within_seconds: seconds, since: null, until: null }),
          )}
        />
        <Chips
          label="Sets of actions"
          chips={actionSets.map(({ name, actions }) => props.list.chip(name, { action: actions }))}
        />
      </div>
      <LeftOut {...props} />
      <details open={hasFields() || isWide}>
        <summary>More filters</summary>
        <div class="audit-fields">
          <ActionChoices {...props} />
          <For each={textFields}>
            {({ name, hint, parameter }) => (
              <TextField
                name={name}
                hint={hint}
                value={props.list.params().get(parameter) ?? ""}
                onChange={(text) => props.onChange({ [parameter]: text || null })}
              />
            )}
          </For>
          <For each={timeFields}>
            {({ name, parameter }) => (
              <TimestampField
                name={name}
                value={props.list.params().get(parameter)}
                onChange={(at) => props.onChange({ [parameter]: at, within_seconds: null })}
              />
            )}
          </For>
          <Show when={props.list.filter().size > 0}>
            <a class="button audit-clear" href="/audit">
              Clear all filters
            </a>
          </Show>
        </div>
      </details>
    </section>
  );
};

/** The actions that are left out, each as a link that shows it again. */
const LeftOut = (props: FilterProps) => {
  const without = () => props.list.params().getAll("not_action");
  return (
    <Show when={without().length > 0}>
      <ul class="chips" aria-label="Actions that are left out">
        <For each={without()}>
          {(action) => (
            <li>
              <a
                class="button"
                href={props.list.pathOf({
                  not_action: without().filter((other) => other !== action),
                })}
              >
                <Icon name="close" /> <span class="visually-hidden">Show again: </span>
                {plainText(action)}
              </a>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
};

/** A choice, and its words if they differ. */
type Choice = readonly [value: string, words?: string];

/** The chosen actions, those that are left out, and the outcome. */
const ActionChoices = (props: FilterProps) => {
  const actions = () => props.list.params().getAll("action");
  const without = () => props.list.params().getAll("not_action");
  return (
    <>
      <ChoiceField
        name="Action"
        choices={[
          ["", "Any"],
          ...(actions().length > 1 ? [["*", `${actions().length} actions`] as const] : []),
          ...[...new Set([...auditActions, ...actions()])].map((action): Choice => [action]),
        ]}
        chosen={actions().length > 1 ? "*" : (actions()[0] ?? "")}
        onChange={(action) => action === "*" || props.onChange({ action: action || null })}
      />
      <ChoiceField
        name="Leave out"
        choices={[
          ["", without().length === 0 ? "None" : `${without().length} left out`],
          ...(without().length > 0 ? [["*", "Show all actions again"] as const] : []),
          ...auditActions
            .filter((action) => !without().includes(action))
            .map((action): Choice => [action]),
        ]}
        chosen=""
        onChange={(action) =>
          props.onChange({ not_action: action === "*" ? null : [...without(), action] })
        }
      />
      <ChoiceField
        name="Outcome"
        choices={[
          ["", "Any"],
          ...auditOutcomes.map((outcome): Choice => [outcome, capitalised(outcome)]),
        ]}
        chosen={props.list.params().get("outcome") ?? ""}
        onChange={(outcome) => props.onChange({ outcome: outcome || null })}
      />
    </>
  );
};

const ChoiceField = (props: {
  name: string;
  choices: readonly Choice[];
  chosen: string;
  onChange: (value: string) => void;
}) => (
  <label>
    {props.name}
    <select class="input" onChange={({ currentTarget }) => props.onChange(currentTarget.value)}>
      <For each={props.choices}>
        {([value, words = value]) => (
          <option value={value} selected={value === props.chosen}>
            {words}
          </option>
        )}
      </For>
    </select>
  </label>
);

const TextField = (props: {
  name: string;
  hint: string;
  value: string;
  onChange: (value: string) => void;
}) => (
  <label>
    {props.name}
    <input
      class="input"
      type="search"
      maxlength="256"
      placeholder={props.hint}
      autocomplete="off"
      value={props.value}
      onChange={({ currentTarget }) => props.onChange(currentTarget.value.trim())}
    />
  </label>
);

/** Minutes in the zone of the page. */
const TimestampField = (props: {
  name: string;
  value: string | null;
  onChange: (value: string | null) => void;
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
