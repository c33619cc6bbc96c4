import {
  createEffect,
  createMemo,
  createSignal,
  createUniqueId,
  For,
  Index,
  on,
  Show,
} from "solid-js";
import { type FleetFilter, filterToParams } from "../../../../proto/fleet-health/filter.ts";
import { type Fault, parseQuery } from "../../../../proto/fleet-health/query-language/parse.ts";
import {
  pillsOf,
  serialiseFilter,
} from "../../../../proto/fleet-health/query-language/serialise.ts";
import { keepText, readKeptText } from "../../browser/kept-text.ts";
import { Icon } from "../../design/parts.tsx";
import { formatCount } from "../../format/format.ts";
import { usePageContext } from "../../session/page-context.tsx";
import { secondOf, splitTime, writeAt } from "./query-time.ts";
import type { FleetValues, Suggestion } from "./suggest.ts";

/**
 * The filter and the past time as an editable query with suggestions, and the filter as removable pills. A query applies with Enter, with a
 * suggestion that completes it, or when cleared; until then the filter of the page stays. A filter that changes elsewhere, as by going back,
 * replaces the text.
 */
export const QueryBar = (props: {
  filter: FleetFilter;
  /** The past time that is shown. */
  at: string | undefined;
  values: FleetValues;
  onApply: (filter: FleetFilter, at: string | undefined) => void;
  /** Receives the input, for the shortcut that focuses it. */
  ref?: (input: HTMLInputElement) => void;
}) => {
  const id = createUniqueId();
  const optionId = (index: number) => `${id}-option-${index}`;
  let input!: HTMLInputElement;
  const { coreNow } = usePageContext();
  const today = () => new Date(coreNow());
  const applied = createMemo(() =>
    [serialiseFilter(props.filter, today()), writeAt(props.at, today())]
      .filter((text) => text !== "")
      .join(" "),
  );
  // Kept through a reload and a new sign-in, until it is applied.
  const [query, setQuery] = createSignal(readKeptText("query", applied()) ?? applied());
  const [cursor, setCursor] = createSignal(0);
  const [focused, setFocused] = createSignal(false);
  const [open, setOpen] = createSignal(false);
  const [active, setActive] = createSignal(-1);
  // A fault appears once the cursor has left its word, or after Enter.
  const [submitted, setSubmitted] = createSignal(false);
  const parsed = createMemo(() => {
    const { rest, at, faults } = splitTime(query(), today());
    const found = parseQuery(rest, today());
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

  // Loaded with the first use; without it, a query still applies.
  const [suggesting, setSuggesting] = createSignal<typeof import("./suggest.ts")>();
  createEffect(() => {
    if (!open() || suggesting() !== undefined) return;
    import("./suggest.ts").then(setSuggesting, () => undefined);
  });
  const suggestions = createMemo(
    () =>
      (open() && suggesting()?.suggest(query(), cursor(), props.values)) || {
        from: 0,
        to: 0,
        items: [],
      },
  );
  const pills = createMemo(() => pillsOf(props.filter, today()));
  const shown = () => open() && suggestions().items.length > 0;
  const faults = createMemo(() =>
    parsed().faults.filter(
      ({ from, to }) => submitted() || !focused() || cursor() < from || cursor() > to,
    ),
  );

  const edit = (text: string, at: number) => {
    setQuery(text);
    setCursor(at);
    setActive(-1);
    setSubmitted(false);
  };
  const followCursor = () => setCursor(input.selectionStart ?? 0);
  const close = () => {
    setOpen(false);
    setActive(-1);
  };
  const apply = () => {
    close();
    setSubmitted(true);
    const { filter, at, faults } = parsed();
    const fault = faults[0];
    if (fault) input.setSelectionRange(fault.from, fault.to);
    else props.onApply(filter, at);
  };
  const take = (suggestion: Suggestion) => {
    const taken = suggesting()?.takeSuggestion(query(), suggestions(), suggestion);
    if (taken === undefined) return;
    edit(taken.query, taken.cursor);
    input.value = taken.query;
    input.setSelectionRange(taken.cursor, taken.cursor);
    if (!suggestion.whole) return;
    close();
    if (parsed().faults.length === 0) props.onApply(parsed().filter, parsed().at);
  };
  const move = (step: 1 | -1) => {
    if (!open()) followCursor();
    setOpen(true);
    const count = suggestions().items.length;
    // One position more than there are items: the input itself.
    setActive(((active() + 1 + step + count + 1) % (count + 1)) - 1);
    document.getElementById(optionId(active()))?.scrollIntoView({ block: "nearest" });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // An input method that composes a character uses these keys itself.
    if (event.isComposing) return;
    const chosen = suggestions().items[active()];
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if ((event.key === "Enter" || event.key === "Tab") && shown() && chosen) take(chosen);
    else if (event.key === "Escape" && shown()) close();
    else if (event.key === "Escape" && pending()) edit(applied(), applied().length);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const applyAndFocus = (filter: FleetFilter) => {
    props.onApply(filter, props.at);
    input.focus();
    close();
  };

  return (
    <search>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          apply();
        }}
      >
        <label class="visually-hidden" for={`${id}-input`}>
          Search and filter hosts
        </label>
        <div class="query-field">
          <Icon name="search" />
          <input
            ref={(element) => {
              input = element;
              props.ref?.(element);
            }}
            id={`${id}-input`}
            class="input query-input"
            type="text"
            role="combobox"
            enterkeyhint="search"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            placeholder="Name, id, serial number… or state:stale version<1.4; ? lists all terms"
            value={query()}
            aria-autocomplete="list"
            aria-expanded={shown()}
            aria-controls={`${id}-list`}
            aria-activedescendant={shown() && active() >= 0 ? optionId(active()) : undefined}
            aria-invalid={faults().length > 0}
            aria-describedby={`${id}-faults`}
            onInput={() => {
              setOpen(true);
              edit(input.value, input.selectionStart ?? input.value.length);
            }}
            onClick={() => {
              followCursor();
              setOpen(true);
            }}
            onKeyUp={followCursor}
            onKeyDown={onKeyDown}
            onFocus={() => {
              setFocused(true);
              // An empty bar shows the language.
              if (query() === "") setOpen(true);
            }}
            onBlur={() => {
              setFocused(false);
              close();
            }}
          />
          <Show
            when={pending()}
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
          <div
            class="query-list"
            id={`${id}-list`}
            role="listbox"
            aria-label="Suggestions"
            hidden={!shown()}
          >
            {/* By place: a key that is typed rewrites texts, and makes no elements. */}
            <Index each={suggestions().items}>
              {(item, index) => (
                // biome-ignore lint/a11y/useKeyWithClickEvents: the input has the focus and handles the keys.
                <div
                  id={optionId(index)}
                  class="query-option"
                  role="option"
                  tabIndex={-1}
                  aria-selected={index === active()}
                  onPointerDown={(event) => event.preventDefault()}
                  onClick={() => take(item())}
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
        </div>
      </form>
      <div id={`${id}-faults`} role="status">
        <For each={faults()}>{(fault) => <FaultLine fault={fault} query={query()} />}</For>
      </div>
      <Show when={pills().length > 0}>
        <ul class="pills" aria-label="Current filters">
          <For each={pills()}>
            {(pill) => (
              <li>
                <button type="button" class="pill" onClick={() => applyAndFocus(pill.without)}>
                  <span class="visually-hidden">Remove filter </span>
                  <code>{pill.label}</code>
                  <Icon name="close" />
                </button>
              </li>
            )}
          </For>
          <li>
            <button type="button" class="pill pill-clear" onClick={() => applyAndFocus({})}>
              Clear filters
            </button>
          </li>
        </ul>
      </Show>
    </search>
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
