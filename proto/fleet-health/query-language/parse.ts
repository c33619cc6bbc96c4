import { isLabelKey, isLabelValue } from "#proto/labels.ts";
import {
  changeFilter,
  distinctStates,
  type FilterPart,
  type FleetFilter,
  filterParts,
  filterValuesMax,
  negatedPart,
  type PositivePart,
} from "../filter.ts";
import { type FleetState, fleetStates } from "../vocabulary.ts";
import { connectiveFault, isConnective } from "./connectives.ts";
import { nearest } from "./nearest.ts";
import { type Term, terms, termsOf, textFault } from "./terms.ts";
import { quote, quoteValue, splitWords, type TermParts, termParts, type Word } from "./words.ts";

/** A fault in a query: its start and end (exclusive), and a message with the remedy. */
export interface Fault {
  from: number;
  to: number;
  message: string;
}

/** The filter of the valid parts of a query, and its faults in order. Apply the filter only without faults. */
interface ParsedQuery {
  filter: FleetFilter;
  faults: readonly Fault[];
}

/**
 * Parses a query of the language (`terms.ts`). Words and terms are joined by AND; each word outside a term is a text to find. Times are
 * UTC, and relative to `now`.
 */
export const parseQuery = (query: string, now: Date): ParsedQuery => {
  const words = splitWords(query);
  const faults: Fault[] = [];
  const draft = new Draft();
  words.forEach((word, index) => {
    const { from, to } = word;
    if (word.openQuoteAt !== undefined) {
      faults.push({
        from: word.openQuoteAt,
        to,
        message: 'This quote is not closed: add " at its end.',
      });
      return;
    }
    const connective = connectiveFault(words, index);
    if (connective !== undefined) {
      faults.push({ from, to, message: connective });
      return;
    }
    const parts = termParts(word);
    if (parts === undefined) {
      const message = addText(draft, word);
      if (message !== undefined) faults.push({ from, to, message });
      return;
    }
    const candidates = termsOf(parts.key).filter(({ operators }) =>
      operators.includes(operatorOf(parts)),
    );
    const [term] = candidates;
    if (term === undefined) {
      faults.push({ from, to: from + parts.headLength, message: headFault(parts, word) });
      return;
    }
    for (const message of addValues(draft, candidates, parts, word, now))
      faults.push({ from: parts.value === "" ? from : from + parts.headLength, to, message });
  });
  if (draft.states.length === 0)
    faults.push({
      from: 0,
      to: query.length,
      message: "These states exclude each other: no host can match.",
    });
  return { filter: draft.filter, faults };
};

/** The filter of the words so far. */
class Draft {
  readonly #parts: Partial<Record<FilterPart, unknown>> = {};
  readonly #wanted = new Set<FleetState>();
  readonly #unwanted = new Set<FleetState>();

  /** Adds a value to a part. Returns the fault: a part that has one value, or too many. */
  add(part: PositivePart, negated: boolean, value: unknown): string | undefined {
    if (part === "states") {
      (negated ? this.#unwanted : this.#wanted).add(value as FleetState);
      return undefined;
    }
    const name = negated ? (negatedPart(part) ?? part) : part;
    const before = this.#parts[name];
    if (!("value" in filterParts[name])) {
      if (before !== undefined && before !== value) return "is given twice: keep one.";
      this.#parts[name] = value;
      return undefined;
    }
    const values = new Set((before as readonly unknown[] | undefined) ?? []).add(value);
    if (values.size > filterValuesMax) return `has more than ${filterValuesMax} values.`;
    const definition = filterParts[name];
    this.#parts[name] =
      "sorted" in definition ? definition.sorted([...values] as string[]) : [...values];
    return undefined;
  }

  get states(): FleetState[] {
    return fleetStates.filter(
      (state) => (this.#wanted.size === 0 || this.#wanted.has(state)) && !this.#unwanted.has(state),
    );
  }

  get filter(): FleetFilter {
    return changeFilter(this.#parts as FleetFilter, { states: distinctStates(this.states) });
  }
}

/** Adds a text to find, or to exclude with a minus. */
const addText = (draft: Draft, { text, bareLength }: Word) => {
  const negated = bareLength > 0 && text.startsWith("-") && text.length > 1;
  const wanted = negated ? text.slice(1) : text;
  if (wanted === "") return undefined;
  const fault = textFault(filterParts.text, wanted);
  if (fault !== undefined) return fault;
  const tooMany = draft.add("text", negated, wanted);
  return tooMany && `The query ${tooMany}`;
};

/** `hb:>10m` is how other search bars write `hb>10m`. */
const operatorOf = ({ operator }: TermParts) =>
  operator.length > 1 && operator.startsWith(":") ? operator.slice(1) : operator;

/** Adds the values of a term. Returns a fault for each invalid one. */
const addValues = (
  draft: Draft,
  candidates: readonly Term[],
  parts: TermParts,
  word: Word,
  now: Date,
): string[] => {
  const [term] = candidates;
  if (term === undefined) return [];
  const operator = operatorOf(parts);
  const head = `${term.key}${operator}`;
  if (parts.value === "") return [`${head} needs a value, like ${exampleOf(term)}.`];
  const values = candidates.some(({ isList }) => isList) ? valuesOf(parts, word) : [parts.value];
  return values.flatMap((text) => {
    if (text === "") return [`A value is missing beside a comma, like ${exampleOf(term)}.`];
    const read = readValue(candidates, { operator, text }, now);
    if ("fault" in read) return [read.fault];
    const fault = draft.add(read.term.part, parts.negated, read.value);
    return fault === undefined ? [] : [`${head} ${fault}`];
  });
};

const valuesOf = ({ value }: TermParts, { text, commas }: Word): string[] => {
  const start = text.length - value.length;
  const cuts = [-1, ...commas.map((at) => at - start), value.length];
  return cuts.slice(1).map((cut, index) => value.slice((cuts[index] ?? 0) + 1, cut));
};

/** Reads a value by the first term that accepts it; else returns the fault of the first term. */
const readValue = (
  candidates: readonly Term[],
  { operator, text }: { operator: string; text: string },
  now: Date,
): { term: Term; value: unknown } | { fault: string } => {
  let fault: string | undefined;
  for (const term of candidates) {
    const value = term.read(text, now, operator);
    if (value !== undefined) return { term, value };
    fault ??= term.fault(text);
  }
  return { fault: fault ?? "" };
};

/** Returns how a term is written, with its example. */
export const exampleOf = ({ key, operators, example }: Term): string =>
  `${key}${operators[0]}${example}`;

/** Names a key that does not exist, or an operator that a key does not have. */
const headFault = (parts: TermParts, { text }: Word) => {
  const known = termsOf(parts.key);
  if (known.length > 0)
    return `${known.map((term) => `Write ${exampleOf(term)}: ${term.meaning}`).join(". ")}.`;
  const meant = nearestTerm(parts.key);
  const guess = meant
    ? `Did you mean ${parts.negated ? "-" : ""}${meant.key}${meant.operators[0]}? `
    : "";
  return `There is no ${parts.key}${parts.operator}. ${guess}To search for it as text, put it in quotes: ${quote(text)}${meant ? "" : labelHint(parts)}`;
};

/** A label's key without its prefix is what people type first. */
const labelHint = ({ negated, key, operator, value }: TermParts) =>
  operator === ":" && isLabelKey(key) && isLabelValue(value)
    ? ` For a label write ${negated ? "-" : ""}label.${key}:${value}.`
    : "";

/** Other names that people try first. */
const aliases = new Map(
  Object.entries({
    host: "device",
    name: "device",
    id: "identity",
    os: "platform",
    arch: "platform",
    status: "state",
    health: "state",
    last: "fwd",
    forwarded: "fwd",
    envelope: "fwd",
    heartbeats: "hb",
    enrolled: "changed",
    hash: "config",
    drop: "dropped",
    cert: "expires",
    certificate: "expires",
    expiry: "expires",
  }),
);

/** Returns the term that a key was probably meant to be. */
const nearestTerm = (key: string): Term | undefined => {
  const name =
    aliases.get(key) ??
    nearest(
      key,
      terms.map((term) => term.key),
    );
  return name === undefined ? undefined : termsOf(name)[0];
};

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
    const { key = term.key, operator = term.operators[0], text } = term.write(each, now);
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
