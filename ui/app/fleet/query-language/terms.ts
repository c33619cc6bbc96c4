import { distance } from "fastest-levenshtein";
import type { Word } from "./words.ts";

/** The keys of the query language with their operators; the meanings appear in suggestions. */
export const terms = [
  { key: "state", operator: ":", example: "stale,revoked", meaning: "health state, several with commas" },
  { key: "device", operator: ":", example: "web-01", meaning: "exact device id" },
  { key: "identity", operator: ":", example: "spiffe://fleet/web-01", meaning: "exact identity" },
  { key: "platform", operator: ":", example: "linux/amd64", meaning: "exact platform" },
  { key: "version", operator: ":", example: "1.4.0", meaning: "exact collector version" },
  { key: "drift", operator: ":", example: "drifted", meaning: "running config against desired" },
  { key: "forwarding", operator: ":", example: "stopped", meaning: "forwarding, stopped or never forwarded" },
  { key: "heartbeat", operator: ":", example: "recent", meaning: "last heartbeat is recent; for an age, hb>10m" },
  { key: "hb", operator: ">", example: "10m", meaning: "last heartbeat longer ago than" },
  { key: "expires", operator: "<", example: "3d", meaning: "certificate expires within" },
] as const;

/** A key, its operator, an example of a value and its meaning. */
export type Term = (typeof terms)[number];

type TermKey = Term["key"];

/** Returns the term of a key. */
export const termOf = (key: string): Term | undefined => terms.find((term) => term.key === key);

/** The keys that a leading `-` may negate. */
export const negatable: readonly TermKey[] = ["state", "version"];

/** The parts of a word: `-version:1.2.3` is negated, key `version`, operator `:`, value `1.2.3`. */
export interface TermParts {
  negated: boolean;
  key: string;
  operator: string;
  value: string;
  /** Length of all before the value, in characters of the query. */
  headLength: number;
}

/**
 * Splits a word that looks like `key:value`, `key>value` or `key<value`; undefined for free text. A URI (`spiffe://…`) is free text,
 * unless it begins with a key of the language.
 */
export const termParts = ({ text, bareLength }: Pick<Word, "text" | "bareLength">): TermParts | undefined => {
  const [head, minus, key, operator] = /^(-?)([a-z][a-z_]*)(:[<>]?|[<>][=:]?)/i.exec(text.slice(0, bareLength)) ?? [];
  if (head === undefined || key === undefined || operator === undefined) return undefined;
  const value = text.slice(head.length);
  const name = key.toLowerCase();
  if (value.startsWith("//") && termOf(name) === undefined) return undefined;
  return { negated: minus === "-", key: name, operator, value, headLength: head.length };
};

/** Other names that people try first. */
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

/** Returns the term that a key was probably meant to be. */
export const nearestTerm = (key: string): Term | undefined =>
  termOf(
    aliases[key] ??
      nearest(
        key,
        terms.map((term) => term.key),
      ) ??
      "",
  );

/** Returns the name that `text` was probably meant to be: one that it begins, else the closest by at most 2 edits. */
export const nearest = (text: string, names: readonly string[]): string | undefined => {
  if (text === "") return undefined;
  const begun = names.find((name) => name.startsWith(text));
  if (begun !== undefined) return begun;
  const [closest] = names
    // Long texts need no exact distance.
    .filter((name) => Math.abs(text.length - name.length) <= 2)
    .map((name) => ({ name, edits: distance(text, name) }))
    .filter(({ name, edits }) => edits <= Math.min(2, name.length - 1))
    .sort((one, other) => one.edits - other.edits);
  return closest?.name;
};
