import {
  changeFilter,
  distinctStates,
  type FilterPart,
  type FleetFilter,
  negatedPart,
} from "../filter.ts";
import { type FleetState, fleetStates } from "../vocabulary.ts";
import { isConnective } from "./connectives.ts";
import { termParts } from "./term-parts.ts";
import { type Term, terms } from "./terms.ts";
import { quote, quoteValue } from "./words.ts";

/** Writes a filter as a query, always in the same order and spelling. `parseQuery` is its inverse at the same `now`. */
export const serialiseFilter = (filter: FleetFilter, now: Date): string =>
  writtenParts(filter, now)
    .map(({ text }) => text)
    .join(" ");

/** One value of a filter as the query writes it, and the filter without it. */
interface Pill {
  label: string;
  without: FleetFilter;
}

/** Returns the values of a filter in the order of its query, each as a term of its own. */
export const pillsOf = (filter: FleetFilter, now: Date): Pill[] =>
  writtenParts(filter, now).flatMap(({ part, values }) =>
    part === "states"
      ? statePills(filter, filter.states ?? [])
      : values.map(({ value, label }) => {
          const rest = values.filter((other) => other.value !== value).map((other) => other.value);
          return {
            label,
            without: changeFilter(filter, { [part]: rest.length === 0 ? undefined : rest }),
          };
        }),
  );

const statePills = (filter: FleetFilter, states: readonly FleetState[]): Pill[] => {
  const excluded = excludedStates(states);
  return (excluded ?? states).map((state) => ({
    label: `${excluded ? "-" : ""}state:${state}`,
    without: changeFilter(filter, {
      states: distinctStates(excluded ? [...states, state] : states.filter((one) => one !== state)),
    }),
  }));
};

/** Returns the states left out, when naming them is shorter than naming the others. */
const excludedStates = (states: readonly FleetState[]): readonly FleetState[] | undefined =>
  states.length > fleetStates.length / 2
    ? fleetStates.filter((state) => !states.includes(state))
    : undefined;

interface WrittenPart {
  part: FilterPart;
  /** The whole part. */
  text: string;
  /** Each value by itself. */
  values: readonly { value: unknown; label: string }[];
}

const writtenParts = (filter: FleetFilter, now: Date): WrittenPart[] => [
  ...writtenTexts("text", filter.text ?? [], ""),
  ...writtenTexts("notText", filter.notText ?? [], "-"),
  ...terms.flatMap((term) => {
    if (term.part === "states")
      return filter.states === undefined ? [] : [writtenStates(term, filter.states, now)];
    const negated = negatedPart(term.part);
    return [
      ...writtenTerm(term, term.part, filter[term.part], { minus: "", now }),
      ...(negated === undefined
        ? []
        : writtenTerm(term, negated, filter[negated], { minus: "-", now })),
    ];
  }),
];

const writtenTexts = (part: FilterPart, texts: readonly string[], minus: string): WrittenPart[] => {
  const values = texts.map((value) => ({ value, label: minus + writeText(value) }));
  return values.length === 0
    ? []
    : [{ part, values, text: values.map(({ label }) => label).join(" ") }];
};

const writeText = (text: string) =>
  /^[^\s"-][^\s"]*$/.test(text) &&
  !isConnective(text) &&
  termParts({ text, bareLength: text.length }) === undefined
    ? text
    : quote(text);

const writtenStates = (term: Term, states: readonly FleetState[], now: Date): WrittenPart => {
  const excluded = excludedStates(states);
  const [written] = excluded
    ? writtenTerm(term, "states", excluded, { minus: "-", now })
    : writtenTerm(term, "states", states, { minus: "", now });
  return written ?? { part: "states", text: "", values: [] };
};

/** Writes the values of a part behind one key, if the term is a list; else each behind its own. */
const writtenTerm = (
  term: Term,
  part: FilterPart,
  value: unknown,
  { minus, now }: { minus: string; now: Date },
): WrittenPart[] => {
  if (value === undefined) return [];
  const list = Array.isArray(value) ? (value as unknown[]) : [value];
  const values = list.map((each) => {
    const { key = term.key, operator, text } = term.write(each, now);
    return { value: each, head: `${minus}${key}${operator}`, text: quoteValue(text) };
  });
  const heads = [...new Set(values.map(({ head }) => head))];
  const joined = heads.map(
    (head) =>
      head +
      values
        .filter((each) => each.head === head)
        .map(({ text }) => text)
        .join(","),
  );
  const labels = values.map(({ value: each, head, text }) => ({ value: each, label: head + text }));
  const text = term.isList ? joined : labels.map(({ label }) => label);
  return [{ part, text: text.join(" "), values: labels }];
};
