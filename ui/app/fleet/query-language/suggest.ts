import { driftKinds, type FleetState, fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { type Term, termOf, termParts, terms } from "./terms.ts";
import { quoteValue, splitWords, type Word } from "./words.ts";

/** What the fleet holds, to suggest values from; each part may be missing while it loads. */
export interface KnownValues {
  states?: Partial<Record<FleetState, number>>;
  drift?: readonly { drift: string; count: number }[];
  versions?: readonly { version: string; count: number }[];
  platforms?: readonly { platform: string; count: number }[];
}

/** A way to go on from where the cursor is. */
export interface Suggestion {
  /** What takes the place of the word under the cursor. */
  word: string;
  /** What choosing it means, or does. */
  meaning: string;
  /** How many hosts it would find, where that is known. */
  count?: number;
  /** Whether the word is whole: a space follows. A key alone is not. */
  whole: boolean;
}

/** Suggestions for the word under the cursor. `from` and `to` bound that word in the query; equal, when a new one begins there. */
export interface Suggestions {
  from: number;
  to: number;
  items: readonly Suggestion[];
}

const suggestionsMax = 10;

/** What may follow at `cursor`: keys, and once there is a key its values; nothing inside quotes. */
export const suggest = (query: string, cursor: number, known: KnownValues): Suggestions => {
  const word = splitWords(query).find(({ from, to }) => from <= cursor && cursor <= to);
  const { from, to } = word ?? { from: cursor, to: cursor };
  const begun = query.slice(from, cursor);
  const items = begun.includes('"') ? [] : itemsFor(begun, known).filter((item) => item.word !== query.slice(from, to));
  return { from, to, items: items.slice(0, suggestionsMax) };
};

/** The query and cursor after a suggestion was taken. */
export const takeSuggestion = (
  query: string,
  { from, to }: Pick<Suggestions, "from" | "to">,
  { word, whole }: Suggestion,
): { query: string; cursor: number } => {
  const after = query.slice(to).trimStart();
  const head = `${query.slice(0, from)}${word}${whole ? " " : ""}`;
  return { query: `${head}${after !== "" && !whole ? " " : ""}${after}`, cursor: head.length };
};

const itemsFor = (begun: string, known: KnownValues): Suggestion[] => {
  const word: Pick<Word, "text" | "bareLength"> = { text: begun, bareLength: begun.length };
  const parts = termParts(word);
  if (parts === undefined) return keyItems(begun.toLowerCase(), known);
  const term = termOf(parts.key);
  if (term === undefined) return [];
  const head = `${parts.negated ? "-" : ""}${term.key}${term.operator}`;
  if (term.key === "state") return stateItems(head, parts.value.toLowerCase(), known);
  return valuesOf(term, known)
    .filter(({ value }) => value.toLowerCase().includes(parts.value.toLowerCase()))
    .map(({ value, meaning, count }) => ({
      word: head + quoteValue(value),
      meaning,
      ...(count === undefined ? {} : { count }),
      whole: true,
    }));
};

/** Keys that begin so; then states and kinds of drift, which people type without their key. */
const keyItems = (begun: string, known: KnownValues): Suggestion[] => {
  const negated = begun.startsWith("-");
  const stem = negated ? begun.slice(1) : begun;
  const keys = terms
    .filter(({ key }) => key.startsWith(stem) && (!negated || key === "state" || key === "version"))
    .map(({ key, operator, meaning }) => ({
      word: `${negated ? "-" : ""}${key}${operator}`,
      meaning: negated ? `not: ${meaning}` : meaning,
      whole: false,
    }));
  if (stem.length < 2 || negated) return keys;
  const drift = valuesOf({ key: "drift" }, known).filter(({ value }) => value.startsWith(stem));
  return [
    ...keys,
    ...stateItems("state:", stem, known),
    ...drift.map(({ value, meaning, count }) => ({
      word: `drift:${value}`,
      meaning,
      ...(count === undefined ? {} : { count }),
      whole: true,
    })),
  ];
};

/** States for the last of a list with commas, without those already in it. */
const stateItems = (head: string, value: string, { states }: KnownValues): Suggestion[] => {
  const given = value.split(",");
  const last = given.pop() ?? "";
  return fleetStates
    .filter((state) => state.startsWith(last) && !given.includes(state))
    .map((state) => {
      const count = states?.[state];
      return {
        word: head + [...given, state].join(","),
        meaning: stateMeanings[state],
        ...(count === undefined ? {} : { count }),
        whole: true,
      };
    });
};

/** What a state says of a host, in few words. */
const stateMeanings: Readonly<Record<FleetState, string>> = {
  revoked: "identity or certificate revoked",
  enrolling: "enrolled, not heard of yet",
  renewal_failed: "certificate not renewed",
  stale: "heartbeat overdue",
  cert_expiring: "certificate about to expire",
  config_invalid: "config does not validate",
  unsupported_version: "collector too old",
  queue_at_risk: "queue filling or dropping",
  healthy: "nothing is wrong",
};

const driftMeanings: Readonly<Record<string, string>> = {
  in_sync: "runs the desired config",
  drifted: "runs another config",
  on_last_known_good: "fell back to the last good config",
  no_desired: "no desired config",
  unknown: "running config not reported",
};

interface KnownValue {
  value: string;
  meaning: string;
  count?: number;
}

const valuesOf = (term: Pick<Term, "key">, known: KnownValues): KnownValue[] => {
  switch (term.key) {
    case "drift":
      return driftKinds.map((drift) => {
        const count = known.drift?.find((fact) => fact.drift === drift)?.count;
        return { value: drift, meaning: driftMeanings[drift] ?? "", ...(count === undefined ? {} : { count }) };
      });
    case "version":
      return (known.versions ?? []).map(({ version, count }) => ({ value: version, meaning: "", count }));
    case "platform":
      return (known.platforms ?? []).map(({ platform, count }) => ({ value: platform, meaning: "", count }));
    case "forwarding":
      return [
        { value: "never", meaning: "heartbeats, never forwarded" },
        { value: "ever", meaning: "has forwarded" },
      ];
    case "heartbeat":
      return [{ value: "recent", meaning: "last heartbeat is recent" }];
    case "hb":
      return ["3m", "10m", "1h", "1d", "7d"].map((value) => ({ value, meaning: "last heartbeat longer ago" }));
    case "expires":
      return ["1d", "3d", "7d", "30d"].map((value) => ({ value, meaning: "certificate expires within" }));
    default:
      return [];
  }
};
