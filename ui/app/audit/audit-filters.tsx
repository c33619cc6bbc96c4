import { createSignal, For, Show } from "solid-js";
import { type AuditAction, auditActions, changeActions } from "#proto/audit-actions.ts";
import { auditOutcomes } from "#proto/audit-event.ts";
import type { QueryParams } from "../browser/with-query.ts";
import { Icon } from "../design/icon.tsx";
import { Chips } from "../design/records.tsx";
import { plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { type AddressList, capitalised } from "../shell/page.tsx";
import { instantOf, minuteIn } from "./audit-view.ts";

const hour = 3600;

const ranges = {
  "Last hour": hour,
  "24 h": 24 * hour,
  "7 d": 7 * 24 * hour,
  "30 d": 30 * 24 * hour,
  "All time": null,
};

/** Sets of actions that answer a question. */
const actionSets: Readonly<Record<string, readonly AuditAction[]>> = {
  Everything: [],
  Changes: changeActions,
  Revocations: ["identity.revoke", "certificate.revoke", "bootstrap_token.revoke"],
  Configs: ["config.publish", "config.assign", "config.clear", "config.rollback"],
  "Sign-ins": ["operator.sign_in", "operator.sign_out"],
  Exports: auditActions.filter((action) => action.endsWith(".export")),
};

/** The fields of texts by their parameters. */
const textFields: Readonly<Record<string, readonly [name: string, hint: string]>> = {
  actor: ["Actor", "Email or identity"],
  not_actor: ["Not by", "Email or identity"],
  target: ["Target", "Host, serial, config, policy"],
  reason: ["Reason", "token_expired"],
  q: ["Text", "Reason or details"],
};

/** The fields of times by their parameters. */
const timeFields = { since: "From", until: "Until" };

/** The parameters with a field. */
const fieldParameters = ["not_action", "outcome", ...Object.keys({ ...textFields, ...timeFields })];

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
      <div class="audit-sets row">
        <Chips
          label="Time range"
          chips={props.list.chips("within_seconds", ranges, { since: null, until: null })}
        />
        <Chips label="Sets of actions" chips={props.list.chips("action", actionSets)} />
      </div>
      <LeftOut {...props} />
      <details open={hasFields() || isWide}>
        <summary>More filters</summary>
        <div class="audit-fields">
          <ActionChoices {...props} />
          <For each={Object.entries(textFields)}>
            {([parameter, [name, hint]]) => (
              <label>
                {name}
                <input
                  class="input"
                  type="search"
                  maxlength="256"
                  placeholder={hint}
                  autocomplete="off"
                  value={props.list.params().get(parameter) ?? ""}
                  onChange={({ currentTarget: { value } }) =>
                    props.onChange({ [parameter]: value.trim() || null })
                  }
                />
              </label>
            )}
          </For>
          <For each={Object.entries(timeFields)}>
            {([parameter, name]) => (
              <TimestampField
                name={name}
                value={props.list.params().get(parameter)}
                onChange={(at) => props.onChange({ [parameter]: at, within_seconds: null })}
              />
            )}
          </For>
          <Show when={props.list.filter().size > 0}>
            <a class="button audit-clear" href="/changes/audit">
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

/** The words of choices by their values. */
type Choices = Readonly<Record<string, string>>;

/** Returns names as choices. */
const named = (names: readonly string[]): Choices =>
  Object.fromEntries(names.map((name) => [name, name]));

/** The chosen actions, those that are left out, and the outcome. */
const ActionChoices = (props: FilterProps) => {
  const actions = () => props.list.params().getAll("action");
  const without = () => props.list.params().getAll("not_action");
  return (
    <>
      <ChoiceField
        name="Action"
        choices={{
          "": "Any",
          ...(actions().length > 1 && { "*": `${actions().length} actions` }),
          ...named([...auditActions, ...actions()]),
        }}
        chosen={actions().length > 1 ? "*" : (actions()[0] ?? "")}
        onChange={(action) => action === "*" || props.onChange({ action: action || null })}
      />
      <ChoiceField
        name="Leave out"
        choices={{
          "": without().length === 0 ? "None" : `${without().length} left out`,
          ...(without().length > 0 && { "*": "Show all actions again" }),
          ...named(auditActions.filter((action) => !without().includes(action))),
        }}
        chosen=""
        onChange={(action) =>
          props.onChange({ not_action: action === "*" ? null : [...without(), action] })
        }
      />
      <ChoiceField
        name="Outcome"
        choices={{
          "": "Any",
          ...Object.fromEntries(auditOutcomes.map((outcome) => [outcome, capitalised(outcome)])),
        }}
        chosen={props.list.params().get("outcome") ?? ""}
        onChange={(outcome) => props.onChange({ outcome: outcome || null })}
      />
    </>
  );
};

const ChoiceField = (props: {
  name: string;
  choices: Choices;
  chosen: string;
  onChange: (value: string) => void;
}) => (
  <label>
    {props.name}
    <select class="input" onChange={({ currentTarget }) => props.onChange(currentTarget.value)}>
      <For each={Object.entries(props.choices)}>
        {([value, words]) => (
          <option value={value} selected={value === props.chosen}>
            {words}
          </option>
        )}
      </For>
    </select>
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
