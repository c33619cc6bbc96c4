import {
  changeFilter,
  distinctStates,
  type FleetFilter,
  filterSecondsMax,
} from "../../../../proto/fleet-health/filter.ts";
import { driftKinds, fleetStates, forwardings } from "../../../../proto/fleet-health/vocabulary.ts";
import { parseDuration } from "./duration.ts";
import { type TextField, textFault } from "./filter.ts";
import { nearest, nearestTerm, negatable, type Term, type TermParts, termOf, termParts } from "./terms.ts";
import { quote, splitWords, type Word } from "./words.ts";

/** A fault in a query: its start and end (exclusive), and a message with the remedy. */
export interface Fault {
  from: number;
  to: number;
  message: string;
}

/** The filter of the valid parts of a query, and its faults in order. Apply the filter only without faults. */
export interface ParsedQuery {
  filter: FleetFilter;
  faults: readonly Fault[];
}

/** Parses a query of the language (`terms.ts`); free text outside terms becomes one search, its words joined by a space. */
export const parseQuery = (query: string): ParsedQuery => {
  const faults: Fault[] = [];
  const texts: Word[] = [];
  const wanted = new Set<string>();
  const unwanted = new Set<string>();
  let filter: FleetFilter = {};

  for (const word of splitWords(query)) {
    const { from, to } = word;
    if (word.openQuoteAt !== undefined) {
      faults.push({ from: word.openQuoteAt, to, message: 'This quote is not closed: add " at its end.' });
      continue;
    }
    const parts = termParts(word);
    if (parts === undefined) {
      texts.push(word);
      continue;
    }
    const term = termOf(parts.key);
    const headFault = term === undefined ? unknownKey(parts, word) : operatorFault(term, parts);
    if (term === undefined || headFault !== undefined) {
      faults.push({ from, to: from + parts.headLength, message: headFault ?? "" });
      continue;
    }
    const valueFault = (message: string): void => {
      faults.push({ from: parts.value === "" ? from : from + parts.headLength, to, message });
    };
    const head = `${term.key}${term.operator}`;
    if (parts.value === "") valueFault(`${head} needs a value, like ${head}${term.example}.`);
    else if (term.key === "state") {
      for (const name of parts.value.split(",")) {
        if (fleetStates.some((state) => state === name)) (parts.negated ? unwanted : wanted).add(name);
        else valueFault(unknownName("state", name, fleetStates));
      }
    } else {
      const part = parseValue(term, parts);
      if (typeof part === "string") valueFault(part);
      else if (contradicts(filter, part)) valueFault(`${head} is given twice: keep one.`);
      else filter = { ...filter, ...part };
    }
  }

  const states = fleetStates.filter((state) => (wanted.size === 0 || wanted.has(state)) && !unwanted.has(state));
  if (states.length === 0)
    faults.push({ from: 0, to: query.length, message: "These states exclude each other: no host can match." });
  const text = texts.map((word) => word.text).join(" ");
  const unsearchable = text === "" ? undefined : textFault("text", text);
  if (unsearchable !== undefined)
    faults.push({ from: texts[0]?.from ?? 0, to: texts.at(-1)?.to ?? query.length, message: unsearchable });
  return {
    filter: changeFilter(filter, {
      states: distinctStates(states),
      text: text === "" || unsearchable !== undefined ? undefined : text,
    }),
    faults,
  };
};

const contradicts = (filter: FleetFilter, part: FleetFilter): boolean =>
  (Object.keys(part) as (keyof FleetFilter)[]).some((key) => filter[key] !== undefined && filter[key] !== part[key]);

const unknownKey = ({ key, negated, operator }: TermParts, { text }: Word): string => {
  const known = nearestTerm(key);
  const guess = known ? `Did you mean ${negated ? "-" : ""}${known.key}${known.operator}? ` : "";
  return `There is no ${key}${operator}. ${guess}To search for it as text, put it in quotes: ${quote(text)}`;
};

const operatorFault = (term: Term, { negated, operator }: TermParts): string | undefined => {
  const written = `${term.key}${term.operator}${term.example}`;
  // `hb:>10m` is how other search bars write it.
  if (operator !== term.operator && operator !== `:${term.operator}`) return `Write ${written}: ${term.meaning}.`;
  if (negated && !negatable.includes(term.key)) return "Only state: and version: can be excluded with a minus.";
  return undefined;
};

/** Parses the value of a term into its part of the filter, or returns the fault. */
const parseValue = (term: Exclude<Term, { key: "state" }>, { negated, value }: TermParts): FleetFilter | string => {
  switch (term.key) {
    case "drift": {
      const drift = driftKinds.find((kind) => kind === value);
      return drift ? { drift } : unknownName("drift", value, driftKinds);
    }
    case "heartbeat":
      return value === "recent" ? { heartbeat: "recent" } : "heartbeat: takes recent; for an age write hb>10m.";
    case "forwarding": {
      const forwarding = forwardings.find((kind) => kind === value);
      return forwarding ? { forwarding } : "forwarding: takes forwarding, stopped or never.";
    }
    case "hb":
    case "expires": {
      const seconds = parseDuration(value);
      if (seconds === undefined) return durationFault(value);
      return term.key === "hb" ? { heartbeatOlderThanSeconds: seconds } : { expiresWithinSeconds: seconds };
    }
    default: {
      const field: TextField = negated ? "notVersion" : term.key;
      return textFault(field, value) ?? { [field]: value };
    }
  }
};

const durationFault = (value: string): string =>
  /^\d+[smhd]$/.test(value)
    ? `At most ${filterSecondsMax / 86_400}d.`
    : "A duration is a whole number and s, m, h or d: 90s, 10m, 12h, 3d.";

const unknownName = (what: string, name: string, names: readonly string[]): string => {
  const guess = nearest(name.toLowerCase(), names);
  return guess === undefined
    ? `No ${what} has this name. Use one of ${names.join(", ")}.`
    : `No ${what} has this name. Did you mean ${guess}?`;
};
