import {
  type Accessor,
  createEffect,
  createMemo,
  createSignal,
  createUniqueId,
  For,
  Index,
  on,
  Show,
} from "solid-js";
import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import {
  type Fault,
  parseQuery,
  pillsOf,
  serialiseFilter,
} from "#proto/fleet-health/query-language/parse.ts";
import { keepText, readKeptText } from "#ui/app/browser/kept-text.ts";
import { Icon } from "#ui/app/design/icon.tsx";
import { formatCount } from "#ui/app/format/format.ts";
import { type PageContext, usePageContext } from "#ui/app/session/page-context.tsx";
import { secondOf, splitTime, writeAt } from "./query-time.ts";
import type { FleetValues, Suggestion } from "./suggest.ts";

interface QueryBarProps {
  filter: FleetFilter;
  /** The past time that is shown. */
  at: string | undefined;
  values: FleetValues;
  onApply: (filter: FleetFilter, at: string | undefined) => void;
  /** Receives the input, for the shortcut that focuses it. */
  ref?: (input: HTMLInputElement) => void;
}

/**
 * The filter and the past time as an editable query with suggestions, and the filter as removable pills. A query applies with Enter, with a
 * suggestion that completes it, or when cleared; until then the filter of the page stays. A filter that changes elsewhere, as by going back,
 * replaces the text.
 */
export const QueryBar = (props: QueryBarProps) => {
  const bar = createQueryBar(props);
  return (
    <search>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          bar.apply();
        }}
      >
        <label class="visually-hidden" for={`${bar.id}-input`}>
          Search and filter hosts
        </label>
        <div class="query-field">
          <Icon name="search" />
          <QueryInput bar={bar} ref={(input) => props.ref?.(input)} />
          <Show
            when={bar.text.pending()}
            fallback={
              <span class="kbd" aria-hidden="true">
                /
              </span>
            }
          >
            <button type="submit" class="button button-primary query-apply">
              Apply
            </button>
          </Show>
          <SuggestionList bar={bar} />
        </div>
      </form>
      <div id={`${bar.id}-faults`} role="status">
        <For each={bar.faults()}>
          {(fault) => <FaultLine fault={fault} query={bar.text.query()} />}
        </For>
      </div>
      <Pills bar={bar} filter={props.filter} />
    </search>
  );
};

const todayOf = ({ coreNow }: Pick<PageContext, "coreNow">) => new Date(coreNow());

/** Creates the text of the query, its parsed filter and faults, and whether it is pending: not applied yet. */
const createEditedQuery = (props: QueryBarProps) => {
  const context = usePageContext();
  const applied = createMemo(() => {
    const today = todayOf(context);
    return [serialiseFilter(props.filter, today), writeAt(props.at, today)]
      .filter((text) => text !== "")
      .join(" ");
  });
  // Kept through a reload and a new sign-in, until it is applied.
  const [query, setQuery] = createSignal(readKeptText("query", applied()) ?? applied());
  const parsed = createMemo(() => {
    const { rest, at, faults } = splitTime(query(), todayOf(context));
    const found = parseQuery(rest, todayOf(context));
    return {
      ...found,
      at: at === secondOf(props.at) ? props.at : at,
      faults: [...faults, ...found.faults],
    };
  });
  const paramsOf = (filter: FleetFilter) => String(filterToParams(filter));
  const pending = createMemo(
    () =>
      parsed().faults.length > 0 ||
      parsed().at !== props.at ||
      paramsOf(parsed().filter) !== paramsOf(props.filter),
  );
  createEffect(
    on(
      applied,
      (text) => {
        if (pending()) setQuery(text);
      },
      { defer: true },
    ),
  );
  createEffect(() => keepText("query", applied(), pending() ? query() : ""));
  return { applied, query, setQuery, parsed, pending };
};

/** Creates the suggestions for the word at the cursor, of which one may be active. */
const createSuggestions = (query: Accessor<string>, values: Accessor<FleetValues>) => {
  const [cursor, setCursor] = createSignal(0);
  const [open, setOpen] = createSignal(false);
  const [active, setActive] = createSignal(-1);
  // Loaded with the first use; without it, a query still applies.
  const [suggesting, setSuggesting] = createSignal<typeof import("./suggest.ts")>();
  createEffect(() => {
    if (!open() || suggesting() !== undefined) return;
    import("./suggest.ts").then(setSuggesting, () => undefined);
  });
  const suggestions = createMemo(() => {
    const found = open() ? suggesting()?.suggest(query(), cursor(), values()) : undefined;
    return found ?? { from: 0, to: 0, items: [] };
  });
  return {
    cursor,
    setCursor,
    open,
    setOpen,
    active,
    setActive,
    suggestions,
    shown: () => open() && suggestions().items.length > 0,
    close: () => {
      setOpen(false);
      setActive(-1);
    },
    /** Returns the query with a suggestion in it, and the cursor behind it. */
    queryWith: (suggestion: Suggestion) =>
      suggesting()?.takeSuggestion(query(), suggestions(), suggestion),
  };
};

/** Creates the state of the bar, and the actions of its keys and clicks. */
const createQueryBar = (props: QueryBarProps) => {
  const text = createEditedQuery(props);
  const { setQuery, parsed } = text;
  const list = createSuggestions(text.query, () => props.values);
  const { cursor, setCursor, open, setOpen, active, setActive, suggestions, close } = list;
  const [focused, setFocused] = createSignal(false);
  // A fault appears once the cursor has left its word, or after Enter.
  const [submitted, setSubmitted] = createSignal(false);
  const faults = createMemo(() =>
    parsed().faults.filter(
      ({ from, to }) => submitted() || !focused() || cursor() < from || cursor() > to,
    ),
  );
  const id = createUniqueId();
  const optionId = (index: number) => `${id}-option-${index}`;
  const field: { input?: HTMLInputElement } = {};
  const followCursor = () => setCursor(field.input?.selectionStart ?? 0);
  const setText = (query: string, cursor: number) => {
    setQuery(query);
    setCursor(cursor);
    setActive(-1);
    setSubmitted(false);
  };
  const apply = () => {
    close();
    setSubmitted(true);
    const { filter, at, faults } = parsed();
    const fault = faults[0];
    if (fault) field.input?.setSelectionRange(fault.from, fault.to);
    else props.onApply(filter, at);
  };
  const accept = (suggestion: Suggestion) => {
    const next = list.queryWith(suggestion);
    if (next === undefined || field.input === undefined) return;
    setText(next.query, next.cursor);
    field.input.value = next.query;
    field.input.setSelectionRange(next.cursor, next.cursor);
    if (!suggestion.whole) return;
    close();
    if (parsed().faults.length === 0) props.onApply(parsed().filter, parsed().at);
  };
  const moveActive = (step: 1 | -1) => {
    if (!open()) followCursor();
    setOpen(true);
    // Position 0 is the input itself, and the items follow.
    const positions = suggestions().items.length + 1;
    const position = (active() + 1 + step + positions) % positions;
    setActive(position - 1);
    document.getElementById(optionId(active()))?.scrollIntoView({ block: "nearest" });
  };
  const applyAndFocus = (filter: FleetFilter) => {
    props.onApply(filter, props.at);
    field.input?.focus();
    close();
  };
  return {
    text,
    list,
    id,
    optionId,
    field,
    faults,
    setFocused,
    setText,
    followCursor,
    apply,
    accept,
    moveActive,
    applyAndFocus,
  };
};

type Bar = ReturnType<typeof createQueryBar>;

/** Handles the keys of the list, and Escape of a query that is not applied. */
const pressKey = (bar: Bar, event: KeyboardEvent) => {
  // An input method that composes a character uses these keys itself.
  if (event.isComposing) return;
  const { key } = event;
  const { text, list } = bar;
  const chosen = list.suggestions().items[list.active()];
  if (key === "ArrowDown") bar.moveActive(1);
  else if (key === "ArrowUp") bar.moveActive(-1);
  else if ((key === "Enter" || key === "Tab") && list.shown() && chosen) bar.accept(chosen);
  else if (key === "Escape" && list.shown()) list.close();
  else if (key === "Escape" && text.pending()) bar.setText(text.applied(), text.applied().length);
  else return;
  event.preventDefault();
  event.stopPropagation();
};

const QueryInput = (props: { bar: Bar; ref: (input: HTMLInputElement) => void }) => {
  const { bar } = props;
  return (
    <input
      ref={(element) => {
        bar.field.input = element;
        props.ref(element);
      }}
      id={`${bar.id}-input`}
      class="input query-input"
      type="text"
      role="combobox"
      enterkeyhint="search"
      autocomplete="off"
      autocapitalize="none"
      spellcheck={false}
      placeholder="Name, id, serial number… or state:stale version<1.4; ? lists all terms"
      value={bar.text.query()}
      aria-autocomplete="list"
      aria-expanded={bar.list.shown()}
      aria-controls={`${bar.id}-list`}
      aria-activedescendant={
        bar.list.shown() && bar.list.active() >= 0 ? bar.optionId(bar.list.active()) : undefined
      }
      aria-invalid={bar.faults().length > 0}
      aria-describedby={`${bar.id}-faults`}
      onInput={({ currentTarget: { value, selectionStart } }) => {
        bar.list.setOpen(true);
        bar.setText(value, selectionStart ?? value.length);
      }}
      onClick={() => {
        bar.followCursor();
        bar.list.setOpen(true);
      }}
      onKeyUp={bar.followCursor}
      onKeyDown={(event) => pressKey(bar, event)}
      onFocus={() => {
        bar.setFocused(true);
        // An empty bar shows the language.
        if (bar.text.query() === "") bar.list.setOpen(true);
      }}
      onBlur={() => {
        bar.setFocused(false);
        bar.list.close();
      }}
    />
  );
};

const SuggestionList = (props: { bar: Bar }) => (
  <div
    class="query-list"
    id={`${props.bar.id}-list`}
    role="listbox"
    aria-label="Suggestions"
    hidden={!props.bar.list.shown()}
  >
    {/* By index, so that typing changes texts and creates no elements. */}
    <Index each={props.bar.list.suggestions().items}>
      {(item, index) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the input has the focus and handles the keys.
        <div
          id={props.bar.optionId(index)}
          class="query-option"
          role="option"
          tabIndex={-1}
          aria-selected={index === props.bar.list.active()}
          onPointerDown={(event) => event.preventDefault()}
          onClick={() => props.bar.accept(item())}
        >
          <code>{item().word}</code>
          <span class="query-meaning">
            {item().meaning}
            <Show when={item().example}>
              : <code>{`${item().word}${item().example}`}</code>
            </Show>
          </span>
          <Show when={item().count !== undefined}>
            <span class="query-count">{formatCount(item().count ?? 0)}</span>
          </Show>
        </div>
      )}
    </Index>
  </div>
);

/** The terms of the filter, each as a button that removes it. */
const Pills = (props: { bar: Bar; filter: FleetFilter }) => {
  const context = usePageContext();
  const pills = createMemo(() => pillsOf(props.filter, todayOf(context)));
  return (
    <Show when={pills().length > 0}>
      <ul class="pills" aria-label="Current filters">
        <For each={pills()}>
          {(pill) => (
            <li>
              <button
                type="button"
                class="pill"
                onClick={() => props.bar.applyAndFocus(pill.without)}
              >
                <span class="visually-hidden">Remove filter </span>
                <code>{pill.label}</code>
                <Icon name="close" />
              </button>
            </li>
          )}
        </For>
        <li>
          <button type="button" class="pill pill-clear" onClick={() => props.bar.applyAndFocus({})}>
            Clear filters
          </button>
        </li>
      </ul>
    </Show>
  );
};

/** A fault, after the part of the query that has it. */
const FaultLine = (props: { fault: Fault; query: string }) => (
  <p class="query-fault">
    <Icon name="warning" />
    <span>
      <Show when={props.fault.to - props.fault.from < props.query.length}>
        <code>{props.query.slice(props.fault.from, props.fault.to)}</code>{" "}
      </Show>
      {props.fault.message}
    </span>
  </p>
);
