import { forwardings } from "../../../../proto/fleet-health/filter.ts";
import { driftKinds, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { durationSecondsMax, parseDuration } from "../../format/duration.ts";
import { changeFilter, type FleetFilter, statesOf, type TextField, textFault } from "./filter.ts";
import { nearest, nearestKey, negatable, type Term, type TermParts, termOf, termParts } from "./terms.ts";
import { quote, splitWords, type Word } from "./words.ts";

/** What is wrong with a part of a query, and where; `to` is exclusive. */
export interface Fault {
  from: number;
  to: number;
  message: string;
}

/** A query read: the filter of all that was understood, and what was not, in order. Apply it only when there are no faults. */
export interface ParsedQuery {
  filter: FleetFilter;
  faults: readonly Fault[];
}

/** A part of a filter, or what is wrong with it. */
type Reading = { filter: FleetFilter } | { fault: string };

/** Reads a query of the language (`terms.ts`); free text outside terms becomes one search, its words joined by a space. */
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
    if (parts.value === "")
      valueFault(`${term.key}${term.operator} needs a value, like ${term.key}${term.operator}${term.example}.`);
    else if (term.key === "state") {
      for (const name of parts.value.split(",")) {
        if (fleetStates.some((state) => state === name)) (parts.negated ? unwanted : wanted).add(name);
        else valueFault(unknownName("state", name, fleetStates));
      }
    } else {
      const reading = readValue(term, parts);
      if ("fault" in reading) valueFault(reading.fault);
      else if (contradicts(filter, reading.filter)) valueFault(`${term.key}${term.operator} is given twice: keep one.`);
      else filter = { ...filter, ...reading.filter };
    }
  }

  const states = fleetStates.filter((state) => (wanted.size === 0 || wanted.has(state)) && !unwanted.has(state));
  if (states.length === 0)
    faults.push({ from: 0, to: query.length, message: "These states exclude each other: no host is in any of them." });
  const text = texts.map((word) => word.text).join(" ");
  const unsearchable = textFault("text", text);
  if (unsearchable !== undefined)
    faults.push({ from: texts[0]?.from ?? 0, to: texts.at(-1)?.to ?? query.length, message: unsearchable });
  return {
    filter: changeFilter(filter, {
      states: statesOf(states),
      text: text === "" || unsearchable !== undefined ? undefined : text,
    }),
    faults,
  };
};

const contradicts = (filter: FleetFilter, part: FleetFilter): boolean =>
  (Object.keys(part) as (keyof FleetFilter)[]).some((key) => filter[key] !== undefined && filter[key] !== part[key]);

const unknownKey = ({ key, negated, operator }: TermParts, { text }: Word): string => {
  const known = termOf(nearestKey(key) ?? "");
  const guess = known ? `Did you mean ${negated ? "-" : ""}${known.key}${known.operator}? ` : "";
  return `There is no ${key}${operator}. ${guess}To search for it as text, put it in quotes: ${quote(text)}`;
};

const operatorFault = (term: Term, { negated, operator }: TermParts): string | undefined => {
  const written = `${term.key}${term.operator}${term.example}`;
  // `hb:>10m` is how other search bars write it.
  if (operator !== term.operator && operator !== `:${term.operator}`) return `Write ${written}: ${term.meaning}.`;
  if (negated && !negatable.includes(term.key)) return `Only state: and version: can be excluded with a minus.`;
  return undefined;
};

const readValue = (term: Exclude<Term, { key: "state" }>, { negated, value }: TermParts): Reading => {
  switch (term.key) {
    case "drift": {
      const drift = driftKinds.find((kind) => kind === value);
      return drift ? { filter: { drift } } : { fault: unknownName("drift", value, driftKinds) };
    }
    case "heartbeat":
      return value === "recent"
        ? { filter: { heartbeat: "recent" } }
        : { fault: "heartbeat: takes recent; for an age write hb>10m." };
    case "forwarding": {
      const forwarding = forwardings.find((kind) => kind === value);
      return forwarding ? { filter: { forwarding } } : { fault: "forwarding: takes never, or ever." };
    }
    case "hb":
      return readDuration(value, (seconds) => ({ heartbeatOlderThanSeconds: seconds }));
    case "expires":
      return readDuration(value, (seconds) => ({ expiresWithinSeconds: seconds }));
    default: {
      const field: TextField = negated ? "notVersion" : term.key;
      const fault = textFault(field, value);
      return fault === undefined ? { filter: { [field]: value } } : { fault };
    }
  }
};

const readDuration = (value: string, filterOf: (seconds: number) => FleetFilter): Reading => {
  const seconds = parseDuration(value);
  if (seconds !== undefined) return { filter: filterOf(seconds) };
  return {
    fault: /^\d+[smhd]$/.test(value)
      ? `At most ${durationSecondsMax / 86_400}d.`
      : "A duration is a whole number and s, m, h or d: 90s, 10m, 12h, 3d.",
  };
};

const unknownName = (what: string, name: string, names: readonly string[]): string => {
  const guess = nearest(name.toLowerCase(), names);
  return guess === undefined
    ? `No ${what} is called that. There are ${names.join(", ")}.`
    : `No ${what} is called that. Did you mean ${guess}?`;
};
