import { createMemo, createSignal, For, Show } from "solid-js";
import { type AuditAction, auditActions } from "#proto/audit-actions.ts";
import { auditOutcomes } from "#proto/audit-event.ts";
import type { QueryParams } from "../browser/with-query.ts";
import { ChoiceField, type Choices } from "../design/choice-field.tsx";
import { Icon } from "../design/icon.tsx";
import { Chips } from "../design/records.tsx";
import { plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { type AddressList, capitalised } from "../shell/page.tsx";
import { instantOf, minuteIn } from "./audit-view.ts";

const hour = 3600;
const week = 7 * 24 * hour;

const ranges = {
  "Last hour": hour,
  "24 h": 24 * hour,
  "7 d": week,
  "30 d": 30 * 24 * hour,
  "All time": null,
};

/** What the page opens with. */
export const peoplesChanges: QueryParams = { by: "people", kind: "change", within_seconds: week };

/** Whose events: what people changed, what hosts and core did, or both. */
const views: Readonly<Record<string, QueryParams>> = {
  "People’s changes": { by: "people", kind: "change" },
  "Machine events": { by: "machines", kind: null },
  Everything: { by: null, kind: null },
};

/** Sets of actions that answer a question. */
const actionSets: Readonly<Record<string, readonly AuditAction[]>> = {
  Any: [],
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
const fieldParameters = [
  "action",
  "not_action",
  "outcome",
  ...Object.keys({ ...textFields, ...timeFields }),
];

interface FilterProps {
  list: AddressList;
  onChange: (change: QueryParams) => void;
}

/** The filters of the audit log: views and ranges as links, the rest folded, as fields that apply on Enter or a choice. */
export const AuditFilters = (props: FilterProps) => {
  // Once open it stays: a field that is being typed in does not vanish.
  const isOpen = createMemo(
    (before: boolean) => before || fieldParameters.some((name) => props.list.params().has(name)),
    false,
  );
  return (
    <section class="panel stack gap-1 audit-filters" aria-label="Filters">
      <div class="audit-sets row">
        <Chips
          label="Whose events"
          chips={Object.entries(views).map(([words, view]) => props.list.chip(words, view))}
        />
        <Chips
          label="Time range"
          chips={props.list.chips("within_seconds", ranges, { since: null, until: null })}
        />
      </div>
      <LeftOut {...props} />
      <details open={isOpen()}>
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
          <a class="button audit-clear" href="/changes/audit">
            Clear all filters
          </a>
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
      <Chips
        label="Actions that are left out"
        chips={without().map((action) => ({
          words: (
            <>
              <Icon name="close" /> <span class="visually-hidden">Show again: </span>
              {plainText(action)}
            </>
          ),
          path: props.list.pathOf({ not_action: without().filter((other) => other !== action) }),
          isChosen: false,
        }))}
      />
    </Show>
  );
};

/** Returns names as choices. */
const named = (names: readonly string[]): Choices =>
  Object.fromEntries(names.map((name) => [name, name]));

/** The chosen actions, those that are left out, and the outcome. */
const ActionChoices = (props: FilterProps) => {
  const actions = () => props.list.params().getAll("action").join();
  const without = () => props.list.params().getAll("not_action");
  return (
    <>
      <ChoiceField
        name="Action"
        choices={{
          [actions()]: actions(),
          ...named(auditActions),
          ...Object.fromEntries(
            Object.entries(actionSets).map(([words, set]) => [set.join(), words]),
          ),
        }}
        chosen={actions()}
        onChange={(chosen) =>
          props.onChange({ action: chosen ? chosen.split(",") : null, by: null, kind: null })
        }
      />
      <ChoiceField
        name="Leave out"
        choices={{
          "": without().length === 0 ? "None" : `${without().length} left out`,
          ...named(auditActions.filter((action) => !without().includes(action))),
        }}
        chosen=""
        onChange={(action) => props.onChange({ not_action: [...without(), action] })}
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
