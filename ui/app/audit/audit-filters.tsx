import { useNavigate } from "@solidjs/router";
import { createMemo, For } from "solid-js";
import { type AuditAction, auditActions } from "#proto/audit-actions.ts";
import { auditOutcomes } from "#proto/audit-event.ts";
import type { QueryParams } from "../browser/with-query.ts";
import { ChoiceField, type Choices } from "../design/choice-field.tsx";
import { FilterForm, type FormValues } from "../design/filter-form.tsx";
import { capitalised, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import type { AddressList } from "../shell/page.tsx";
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
  Configs: [
    "config.publish",
    "config.assign",
    "config.clear",
    "config.rollback",
    "config.fall_back",
  ],
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

/** Returns the choices of the filter: whose events, when, and which actions are left out. */
export const auditChoices = ({ chip, chips, params, pathOf }: AddressList) => {
  const without = leftOut(params());
  return {
    "Whose events": Object.entries(views).map(([words, view]) => chip(words, view)),
    "Time range": chips("within_seconds", ranges, { since: null, until: null }),
    "Actions that are left out": without.map((action) => ({
      words: `Show again: ${plainText(action)}`,
      path: pathOf({ not_action: without.filter((other) => other !== action) }),
      isChosen: false,
    })),
  };
};

/** The other filters, folded until one is set. */
export const AuditFields = (props: { list: AddressList }) => {
  const { times } = usePageContext();
  const navigate = useNavigate();
  const given = (name: string) => props.list.params().get(name);
  const minuteOf = (name: string) => minuteIn(given(name), times.zone());
  const apply = ({ action, not_action, since, until, ...values }: FormValues) => {
    // A time with seconds, as links have it, stays unless another minute is chosen.
    const timeOf = (name: string, minute: string) =>
      minute === minuteOf(name) ? given(name) : instantOf(minute, times.zone());
    const change = {
      ...values,
      action: action?.split(","),
      not_action: [...leftOut(props.list.params()), not_action ?? []].flat(),
      since: timeOf("since", since ?? ""),
      until: timeOf("until", until ?? ""),
      ...((action ?? "") !== actionsOf(props.list.params()) && { by: null, kind: null }),
      ...((since || until) && { within_seconds: null }),
    };
    navigate(props.list.pathOf(change), { scroll: false });
  };
  // Once open it stays: a field that is being typed in does not vanish.
  const isOpen = createMemo(
    (before: boolean) => before || fieldParameters.some((name) => given(name) !== null),
    false,
  );
  return (
    <details open={isOpen()}>
      <summary>More filters</summary>
      <FilterForm class="audit-fields" onApply={apply}>
        <ActionChoices params={props.list.params()} />
        <For each={Object.entries(textFields)}>
          {([parameter, [name, hint]]) => (
            <label>
              {name}
              <input
                class="input"
                type="search"
                name={parameter}
                maxlength="256"
                placeholder={hint}
                autocomplete="off"
                value={given(parameter) ?? ""}
              />
            </label>
          )}
        </For>
        <For each={Object.entries(timeFields)}>
          {([parameter, name]) => (
            <label>
              {name} ({times.zone() === "utc" ? "UTC" : "local time"})
              <input
                class="input"
                type="datetime-local"
                name={parameter}
                value={minuteOf(parameter)}
              />
            </label>
          )}
        </For>
        <button class="button" type="submit">
          Apply
        </button>
        <a class="button" href="/changes/audit">
          Clear all filters
        </a>
      </FilterForm>
    </details>
  );
};

/** The chosen actions, those that are left out, and the outcome. */
const ActionChoices = (props: { params: URLSearchParams }) => {
  const actions = () => actionsOf(props.params);
  const without = () => leftOut(props.params);
  return (
    <>
      <ChoiceField
        name="Action"
        field="action"
        choices={{
          [actions()]: actions(),
          ...named(auditActions),
          ...Object.fromEntries(
            Object.entries(actionSets).map(([words, set]) => [set.join(), words]),
          ),
        }}
        chosen={actions()}
      />
      <ChoiceField
        name="Leave out"
        field="not_action"
        choices={{
          "": without().length === 0 ? "None" : `${without().length} left out`,
          ...named(auditActions.filter((action) => !without().includes(action))),
        }}
        chosen=""
      />
      <ChoiceField
        name="Outcome"
        field="outcome"
        choices={{
          "": "Any",
          ...Object.fromEntries(auditOutcomes.map((outcome) => [outcome, capitalised(outcome)])),
        }}
        chosen={props.params.get("outcome") ?? ""}
      />
    </>
  );
};

const actionsOf = (params: URLSearchParams) => params.getAll("action").join();
const leftOut = (params: URLSearchParams) => params.getAll("not_action");

/** Returns names as choices. */
const named = (names: readonly string[]): Choices =>
  Object.fromEntries(names.map((name) => [name, name]));
