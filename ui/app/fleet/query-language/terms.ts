import type { Word } from "./words.ts";

/** The keys of the query language: what follows each, and what it does, in the words of the suggestions. */
export const terms = [
  { key: "state", operator: ":", example: "stale,revoked", meaning: "health state, several with commas" },
  { key: "device", operator: ":", example: "web-01", meaning: "exact device id" },
  { key: "identity", operator: ":", example: "spiffe://fleet/web-01", meaning: "exact identity" },
  { key: "platform", operator: ":", example: "linux/amd64", meaning: "exact platform" },
  { key: "version", operator: ":", example: "1.4.0", meaning: "exact collector version" },
  { key: "drift", operator: ":", example: "drifted", meaning: "running config against desired" },
  { key: "forwarding", operator: ":", example: "never", meaning: "heartbeats, never forwarded; or ever did" },
  { key: "heartbeat", operator: ":", example: "recent", meaning: "last heartbeat is recent; for an age, hb>10m" },
  { key: "hb", operator: ">", example: "10m", meaning: "last heartbeat longer ago than" },
  { key: "expires", operator: "<", example: "3d", meaning: "certificate expires within" },
] as const;

/** A key and what the language knows of it. */
export type Term = (typeof terms)[number];

/** A key of the query language. */
export type TermKey = Term["key"];

/** The term of a key. */
export const termOf = (key: string): Term | undefined => terms.find((term) => term.key === key);

/** The keys that may be negated with a leading `-`. */
export const negatable: readonly TermKey[] = ["state", "version"];

/** A word taken apart: `-version:1.2.3` is negated, key `version`, operator `:`, value `1.2.3`. */
export interface TermParts {
  negated: boolean;
  key: string;
  operator: string;
  value: string;
  /** Length of all before the value, in characters of the query. */
  headLength: number;
}

/**
 * The parts of a word that looks like `key:value`, `key>value` or `key<value`; undefined for free text. A URI (`spiffe://…`) is free
 * text, unless it begins with a key of the language.
 */
export const termParts = ({ text, bareLength }: Pick<Word, "text" | "bareLength">): TermParts | undefined => {
  const [head, minus, key, operator] = /^(-?)([a-z][a-z_]*)(:[<>]?|[<>][=:]?)/i.exec(text.slice(0, bareLength)) ?? [];
  if (head === undefined || key === undefined || operator === undefined) return undefined;
  const value = text.slice(head.length);
  const name = key.toLowerCase();
  if (value.startsWith("//") && termOf(name) === undefined) return undefined;
  return { negated: minus === "-", key: name, operator, value, headLength: head.length };
};

/** Other names people try first. */
const aliases: Readonly<Record<string, TermKey>> = {
  host: "device",
  hostname: "device",
  name: "device",
  id: "identity",
  os: "platform",
  arch: "platform",
  status: "state",
  health: "state",
  config: "drift",
  cert: "expires",
  certificate: "expires",
  expiry: "expires",
};

/** The key that was probably meant. */
export const nearestKey = (key: string): TermKey | undefined =>
  aliases[key] ??
  (nearest(
    key,
    terms.map((term) => term.key),
  ) as TermKey | undefined);

/** The name that `text` was probably meant to be: one that it begins, else the closest by at most 2 edits. */
export const nearest = (text: string, names: readonly string[]): string | undefined => {
  if (text === "") return undefined;
  const begun = names.find((name) => name.startsWith(text));
  if (begun !== undefined) return begun;
  const [closest] = names
    .map((name) => ({ name, edits: editsBetween(text, name) }))
    .filter(({ name, edits }) => edits <= Math.min(2, name.length - 1))
    .sort((one, other) => one.edits - other.edits);
  return closest?.name;
};

/** Levenshtein's distance; names are short, and a text far longer than any is not compared. */
const editsBetween = (text: string, name: string): number => {
  if (Math.abs(text.length - name.length) > 2) return Number.POSITIVE_INFINITY;
  let row = Array.from({ length: name.length + 1 }, (_, index) => index);
  for (let i = 0; i < text.length; i += 1) {
    const next = [i + 1];
    for (let j = 0; j < name.length; j += 1)
      next.push(Math.min((row[j] ?? 0) + (text[i] === name[j] ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    row = next;
  }
  return row[name.length] ?? Number.POSITIVE_INFINITY;
};
