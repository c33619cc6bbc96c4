import type { PositivePart } from "#proto/fleet-health/filter.ts";
import { type Term, terms, termsOf } from "#proto/fleet-health/query-language/terms.ts";
import { quoteValue, splitWords, termParts } from "#proto/fleet-health/query-language/words.ts";
import {
  type ConfigProgress,
  type Drift,
  driftKinds,
  type FleetState,
  type Forwarding,
  fleetConditions,
  fleetStates,
} from "#proto/fleet-health/vocabulary.ts";

/** Complete queries for the daily questions of operators. The list of an empty bar begins with them. */
export const questions: readonly { word: string; meaning: string }[] = [
  { word: "forwarding:stopped", meaning: "which hosts stopped forwarding" },
  {
    word: "drift:drifted,on_last_known_good",
    meaning: "which hosts run another config than desired",
  },
  { word: "expires:weekend", meaning: "which certificates expire this weekend" },
  { word: "condition:queue_at_risk", meaning: "which hosts lose data, or soon will" },
  { word: "auth:failing", meaning: "which hosts keep failing authentication" },
  { word: "changed<1h", meaning: "which hosts changed in the last hour" },
];

/** The values that the fleet has, with their counts; parts are missing while they load. */
export interface FleetValues {
  states?: Partial<Record<FleetState, number>>;
  drift?: readonly { drift: string; count: number }[];
  versions?: readonly { version: string; count: number }[];
  platforms?: readonly { platform: string; count: number }[];
  labels?: readonly {
    key: string;
    count: number;
    values: readonly { value: string; count: number }[];
  }[];
}

/** A completion of the word under the cursor. */
export interface Suggestion {
  /** Replaces the word under the cursor. */
  word: string;
  meaning: string;
  /** A value, for a key. */
  example?: string;
  /** How many hosts it finds, if known. */
  count?: number | undefined;
  /** Whether the word is complete, so that a space follows. A key alone is not. */
  whole: boolean;
}

/** Suggestions for the word from `from` to `to` in the query; both are equal where a new word begins. */
interface Suggestions {
  from: number;
  to: number;
  items: readonly Suggestion[];
}

const suggestionsMax = 10;

/** Suggests keys at `cursor`, or the values of a key; nothing inside quotes. An empty query has whole questions first. */
export const suggest = (query: string, cursor: number, values: FleetValues): Suggestions => {
  const word = splitWords(query).find(({ from, to }) => from <= cursor && cursor <= to);
  const { from, to } = word ?? { from: cursor, to: cursor };
  const begun = query.slice(from, cursor);
  const items = begun.includes('"')
    ? []
    : itemsFor(begun, values).filter((item) => item.word !== query.slice(from, to));
  // Before anything is typed, the list is the language.
  if (begun !== "") return { from, to, items: items.slice(0, suggestionsMax) };
  const asked =
    query.trim() === "" ? questions.map((question) => ({ ...question, whole: true })) : [];
  return { from, to, items: [...asked, ...items] };
};

/** Returns the query and the cursor after taking a suggestion. */
export const takeSuggestion = (
  query: string,
  { from, to }: Pick<Suggestions, "from" | "to">,
  { word, whole }: Suggestion,
): { query: string; cursor: number } => {
  const after = query.slice(to).trimStart();
  const head = `${query.slice(0, from)}${word}${whole ? " " : ""}`;
  return { query: `${head}${after !== "" && !whole ? " " : ""}${after}`, cursor: head.length };
};

const itemsFor = (begun: string, values: FleetValues): Suggestion[] => {
  const parts = termParts({ text: begun, bareLength: begun.length });
  if (parts === undefined) return keyItems(begun.toLowerCase(), values);
  const minus = parts.negated ? "-" : "";
  const known = termsOf(parts.key);
  // People type a label's key without its prefix first.
  const found = known.length > 0 ? known : termsOf(`label.${parts.key}`);
  const fitting = found.filter(({ operators }) => operators.includes(parts.operator));
  return (fitting.length > 0 ? fitting : found).flatMap((term) => {
    const operator = fitting.length > 0 ? parts.operator : term.operators[0];
    return valueItems(term, `${minus}${term.key}${operator}`, parts.value, values);
  });
};

/** Suggests keys that begin so, then states and kinds of drift, which people type without their key. */
const keyItems = (begun: string, values: FleetValues): Suggestion[] => {
  const negated = begun.startsWith("-");
  const stem = negated ? begun.slice(1) : begun;
  const keys: Suggestion[] = terms
    .filter(({ key }) => key.startsWith(stem))
    .map(({ key, operators, meaning, example }) => ({
      word: `${negated ? "-" : ""}${key}${operators[0]}`,
      meaning: negated ? `not: ${meaning}` : meaning,
      example,
      whole: false,
    }));
  if (stem.length < 2) return keys;
  keys.push(...labelItems(stem, negated ? "-" : "", values));
  if (negated) return keys;
  const named = terms.filter(({ part }) => part === "states" || part === "drift");
  return [
    ...keys,
    ...named.flatMap((term) =>
      valueItems(term, `${term.key}:`, stem, values).filter(({ word }) =>
        word.startsWith(`${term.key}:${stem}`),
      ),
    ),
  ];
};

/** Suggests the keys of labels that begin so, with or without their prefix. */
const labelItems = (stem: string, minus: string, { labels = [] }: FleetValues): Suggestion[] =>
  labels
    .filter(({ key }) => [key, `label.${key}`].some((name) => name.toLowerCase().startsWith(stem)))
    .map(({ key, count }) => ({
      word: `${minus}label.${key}:`,
      meaning: "label of the host",
      count,
      whole: false,
    }));

/** Suggests values for the last of a list with commas, except those already in it. */
const valueItems = (term: Term, head: string, typed: string, values: FleetValues): Suggestion[] => {
  const given = term.isList ? typed.split(",") : [typed];
  const last = (given.pop() ?? "").toLowerCase();
  const before = given.map((word) => word.toLowerCase());
  const fits = term.part === "states" ? startsWith : includes;
  return valuesOf(term, values)
    .filter(({ word }) => fits(word.toLowerCase(), last) && !before.includes(word.toLowerCase()))
    .map((item) => ({ ...item, word: head + [...given, quoteValue(item.word)].join(",") }));
};

const startsWith = (word: string, begun: string) => word.startsWith(begun);
const includes = (word: string, part: string) => word.includes(part);

const stateMeanings: Readonly<Record<FleetState, string>> = {
  revoked: "identity or certificate revoked",
  enrolling: "enrolled, no heartbeat yet",
  renewal_failed: "certificate not renewed",
  stale: "heartbeat overdue",
  cert_expiring: "certificate about to expire",
  config_invalid: "config does not validate",
  unsupported_version: "collector version too old",
  queue_at_risk: "queue filling or dropping",
  component_unhealthy: "part of an OpAMP agent fails",
  healthy: "no condition applies",
};

const driftMeanings: Readonly<Record<Drift, string>> = {
  in_sync: "runs the desired config",
  drifted: "runs another config",
  on_last_known_good: "rolled back to the last known good config",
  no_desired: "no desired config",
  unknown: "running config not reported",
};

/** Names of a part besides those that are counted. */
const named: Partial<Record<PositivePart, Readonly<Record<string, string>>>> = {
  progress: {
    silent: "no heartbeat since its config was assigned, or stale",
    running: "runs its desired config",
    failed: "reports its config as invalid",
    drifted: "runs another config than desired",
  } satisfies Record<ConfigProgress, string>,
  forwarding: {
    forwarding: "forwards now",
    stopped: "forwarded before, not now",
    never: "heartbeats, never forwarded",
  } satisfies Record<Forwarding, string>,
  attention: { needed: "in trouble, or not forwarding" },
  heartbeat: { recent: "last heartbeat is recent", never: "no heartbeat yet" },
  forwarder: {
    connected: "reports a connection to core",
    disconnected: "reports no connection to core",
  },
  auth: { failed: "an authentication failed in the last 24 h", failing: "and no heartbeat since" },
  inventory: {
    unexpected: "enrolled, and not in the inventory",
    gone: "no longer in the inventory, and still sending",
    expected: "in the inventory",
  },
  budget: { held: "used up its budget of this hour" },
};

const valueItem = (word: string, meaning: string, count?: number): Suggestion => ({
  word,
  meaning,
  count,
  whole: true,
});

/** Returns the values that a part is likely to be filtered by, as words without the key. */
const valuesOf = ({ part, key, examples, meaning }: Term, values: FleetValues): Suggestion[] => {
  const { states, drift, versions = [], platforms = [], labels } = values;
  switch (part) {
    case "states":
      return fleetStates.map((state) => valueItem(state, stateMeanings[state], states?.[state]));
    case "drift":
      return driftKinds.map((kind) =>
        valueItem(kind, driftMeanings[kind], drift?.find((fact) => fact.drift === kind)?.count),
      );
    case "version":
      return versions.map(({ version, count }) => valueItem(version, "", count));
    case "platform":
      return platforms.map(({ platform, count }) => valueItem(platform, "", count));
    case "label":
      return (labels?.find((label) => key === `label.${label.key}`)?.values ?? []).map(
        ({ value, count }) => valueItem(value, "", count),
      );
    case "condition":
      return fleetConditions.map((condition) => valueItem(condition, stateMeanings[condition]));
    case "versionRange":
      return versions.map(({ version }) => valueItem(version, ""));
    default:
      return [
        ...Object.entries(named[part] ?? {}).map(([word, meaning]) => valueItem(word, meaning)),
        ...examples.map((value) => valueItem(value, meaning)),
      ];
  }
};
