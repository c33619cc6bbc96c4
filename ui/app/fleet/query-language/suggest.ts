import { type Drift, driftKinds, type FleetState, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { negatable, type Term, termOf, termParts, terms } from "./terms.ts";
import { quoteValue, splitWords } from "./words.ts";

/** The values that the fleet has, with their counts; parts are missing while they load. */
export interface FleetValues {
  states?: Partial<Record<FleetState, number>>;
  drift?: readonly { drift: string; count: number }[];
  versions?: readonly { version: string; count: number }[];
  platforms?: readonly { platform: string; count: number }[];
}

/** A completion of the word under the cursor. */
export interface Suggestion {
  /** Replaces the word under the cursor. */
  word: string;
  meaning: string;
  /** How many hosts it finds, if known. */
  count?: number | undefined;
  /** Whether the word is complete, so that a space follows. A key alone is not. */
  whole: boolean;
}

/** Suggestions for the word from `from` to `to` in the query; both are equal where a new word begins. */
export interface Suggestions {
  from: number;
  to: number;
  items: readonly Suggestion[];
}

const suggestionsMax = 10;

/** Suggests keys at `cursor`, or the values of a key; nothing inside quotes. */
export const suggest = (query: string, cursor: number, values: FleetValues): Suggestions => {
  const word = splitWords(query).find(({ from, to }) => from <= cursor && cursor <= to);
  const { from, to } = word ?? { from: cursor, to: cursor };
  const begun = query.slice(from, cursor);
  const items = begun.includes('"')
    ? []
    : itemsFor(begun, values).filter((item) => item.word !== query.slice(from, to));
  return { from, to, items: items.slice(0, suggestionsMax) };
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
  const term = termOf(parts.key);
  if (term === undefined) return [];
  const value = parts.value.toLowerCase();
  const head = `${parts.negated ? "-" : ""}${term.key}${term.operator}`;
  if (term.key === "state") return stateItems(head, value, values);
  return valueItems(term.key, values)
    .filter((item) => item.word.toLowerCase().includes(value))
    .map((item) => ({ ...item, word: head + quoteValue(item.word) }));
};

/** Suggests keys that begin so, then states and kinds of drift, which people type without their key. */
const keyItems = (begun: string, values: FleetValues): Suggestion[] => {
  const negated = begun.startsWith("-");
  const stem = negated ? begun.slice(1) : begun;
  const keys = terms
    .filter(({ key }) => key.startsWith(stem) && (!negated || negatable.includes(key)))
    .map(({ key, operator, meaning }) => ({
      word: `${negated ? "-" : ""}${key}${operator}`,
      meaning: negated ? `not: ${meaning}` : meaning,
      whole: false,
    }));
  if (stem.length < 2 || negated) return keys;
  const drift = valueItems("drift", values).filter(({ word }) => word.startsWith(stem));
  return [
    ...keys,
    ...stateItems("state:", stem, values),
    ...drift.map((item) => ({ ...item, word: `drift:${item.word}` })),
  ];
};

/** Suggests states for the last of a list with commas, except those already in it. */
const stateItems = (head: string, value: string, { states }: FleetValues): Suggestion[] => {
  const given = value.split(",");
  const last = given.pop() ?? "";
  return fleetStates
    .filter((state) => state.startsWith(last) && !given.includes(state))
    .map((state) => valueItem(`${head}${[...given, state].join(",")}`, stateMeanings[state], states?.[state]));
};

const stateMeanings: Readonly<Record<FleetState, string>> = {
  revoked: "identity or certificate revoked",
  enrolling: "enrolled, no heartbeat yet",
  renewal_failed: "certificate not renewed",
  stale: "heartbeat overdue",
  cert_expiring: "certificate about to expire",
  config_invalid: "config does not validate",
  unsupported_version: "collector version too old",
  queue_at_risk: "queue filling or dropping",
  healthy: "no condition applies",
};

const driftMeanings: Readonly<Record<Drift, string>> = {
  in_sync: "runs the desired config",
  drifted: "runs another config",
  on_last_known_good: "rolled back to the last known good config",
  no_desired: "no desired config",
  unknown: "running config not reported",
};

const valueItem = (word: string, meaning: string, count?: number): Suggestion => ({
  word,
  meaning,
  count,
  whole: true,
});

/** Returns the values of a key, as words without the key. */
const valueItems = (key: Term["key"], values: FleetValues): Suggestion[] => {
  switch (key) {
    case "drift":
      return driftKinds.map((drift) =>
        valueItem(drift, driftMeanings[drift], values.drift?.find((fact) => fact.drift === drift)?.count),
      );
    case "version":
      return (values.versions ?? []).map(({ version, count }) => valueItem(version, "", count));
    case "platform":
      return (values.platforms ?? []).map(({ platform, count }) => valueItem(platform, "", count));
    case "forwarding":
      return [
        valueItem("forwarding", "forwards now"),
        valueItem("stopped", "stopped while it sends heartbeats or queues"),
        valueItem("never", "heartbeats, never forwarded"),
      ];
    case "heartbeat":
      return [valueItem("recent", "last heartbeat is recent")];
    case "hb":
      return ["3m", "10m", "1h", "1d", "7d"].map((age) => valueItem(age, "last heartbeat longer ago"));
    case "expires":
      return ["1d", "3d", "7d", "30d"].map((time) => valueItem(time, "certificate expires within"));
    default:
      return [];
  }
};
