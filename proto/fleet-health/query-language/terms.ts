/**
 * The terms of the query language: how a part of the filter is written. Parser, writer, suggestions and reference all read this list. A
 * term stands for one value of its part; `key:a,b` writes several of them, and a minus before the key negates the part.
 */
import * as v from "valibot";
import { anyLabelValue, isLabelKey, isLabelValue, splitLabelPair } from "../../labels.ts";
import { filterParts, filterSecondsMax, type PositivePart } from "../filter.ts";
import { parseDuration, writeDuration } from "./duration.ts";
import { nearest } from "./nearest.ts";
import type { Word } from "./words.ts";

/** A value as a term writes it: `>10m` is the operator `>` and the text `10m`. */
export interface Written {
  /** The key of a label's term, which its value decides. */
  key?: string;
  operator: string;
  text: string;
}

/** The result of reading a value, or the fault in words. */
export type Read = { value: unknown } | { fault: string };

/** A key and its operators: how values of `part` are written. `write` is the inverse of `read`. */
export interface Term {
  readonly key: string;
  /** The first is suggested. */
  readonly operators: readonly string[];
  readonly part: PositivePart;
  /** Whether commas separate values. */
  readonly isList: boolean;
  readonly example: string;
  readonly meaning: string;
  read(written: Written): Read;
  write(value: unknown): Written;
}

const names = (
  part: "states" | "drift" | "rollout" | "heartbeat" | "forwarding",
  {
    key = part as string,
    example,
    meaning,
    hint = "",
  }: { key?: string; example: string; meaning: string; hint?: string },
): Term => {
  const choices: readonly string[] = filterParts[part].choices;
  return {
    ...{ key, part, example, meaning, operators: [":"], isList: true },
    read: ({ text }) => {
      const value = choices.find((name) => name === text.toLowerCase());
      return value === undefined ? { fault: unknownName(key, text, choices) + hint } : { value };
    },
    write: (value) => ({ operator: ":", text: String(value) }),
  };
};

const texts = (part: "device" | "identity" | "platform" | "version", example: string, meaning: string): Term => ({
  ...{ key: part, part, example, meaning, operators: [":"], isList: true },
  read: ({ text }) => {
    const fault = textFault(part, text);
    return fault === undefined ? { value: text } : { fault };
  },
  write: (value) => ({ operator: ":", text: String(value) }),
});

const hashes = (key: string, part: "desiredConfig" | "runningConfig", meaning: string): Term => ({
  ...{ key, part, example: "f8b4c0", meaning, operators: [":"], isList: true },
  read: ({ text }) => {
    const value = text.toLowerCase();
    return v.is(filterParts[part].value, value) ? { value } : { fault: "A hash is 1 to 64 of the digits 0-9 and a-f." };
  },
  write: (value) => ({ operator: ":", text: String(value) }),
});

const seconds = (
  key: string,
  operator: ">" | "<",
  part: "heartbeatOlderThanSeconds" | "expiresWithinSeconds",
  { example, meaning }: { example: string; meaning: string },
): Term => ({
  ...{ key, part, example, meaning, operators: [operator], isList: false },
  read: ({ text }) => {
    const value = parseDuration(text);
    return value === undefined ? { fault: durationFault(text) } : { value };
  },
  write: (value) => ({ operator, text: writeDuration(Number(value)) }),
});

const labelPrefix = "label.";

/** The term of every label: each has its own key, see `labelTerm`. */
const label: Term = {
  ...{ key: "label", part: "label", example: "env:prod", meaning: "label of the host", operators: ["."], isList: true },
  read: () => ({ fault: "A label has a key, like label.env:prod." }),
  write: (value) => {
    const { key, value: text } = splitLabelPair(String(value));
    return { key: `${labelPrefix}${key}`, operator: ":", text };
  },
};

/** `label.env:prod`: the key of a label, in its own case, and its values; `*` for any. */
const labelTerm = (key: string): Term => ({
  ...{ ...label, key: `${labelPrefix}${key}`, operators: [":"], example: "prod" },
  read: ({ text }) => {
    if (!isLabelKey(key)) return { fault: `No label can have this key: ${labelRule}` };
    return text === anyLabelValue || isLabelValue(text)
      ? { value: `${key}:${text}` }
      : { fault: `No label can have this value: ${labelRule} For any value write label.${key}:*.` };
  },
});

const labelRule = "at most 63 letters, digits, dots, dashes and underscores, first and last a letter or digit.";

/** The terms in the order in which a query is written. */
export const terms: readonly Term[] = [
  names("states", { key: "state", example: "stale,revoked", meaning: "health state" }),
  texts("device", "web-01", "exact device id"),
  texts("identity", "spiffe://fleet/web-01", "exact identity"),
  texts("platform", "linux/amd64", "exact platform"),
  texts("version", "1.4.0", "exact collector version"),
  label,
  names("drift", { example: "drifted", meaning: "running config against desired" }),
  names("heartbeat", {
    example: "recent",
    meaning: "last heartbeat is recent; for an age, hb>10m",
    hint: " For an age write hb>10m.",
  }),
  names("forwarding", { example: "stopped", meaning: "forwards now, stopped, or never did" }),
  seconds("hb", ">", "heartbeatOlderThanSeconds", { example: "10m", meaning: "last heartbeat longer ago than" }),
  seconds("expires", "<", "expiresWithinSeconds", { example: "3d", meaning: "certificate expires within" }),
  hashes("desired", "desiredConfig", "hash of the desired config, or its beginning"),
  hashes("running", "runningConfig", "hash of the running config, or its beginning"),
  names("rollout", { example: "drifted,failed", meaning: "what a host has made of its desired config" }),
];

/** Returns why the report would reject a text, for the person who typed it; undefined if it accepts it. */
export const textFault = (
  field: "text" | "device" | "identity" | "platform" | "version",
  text: string,
): string | undefined => {
  const { charactersMax, value } = filterParts[field];
  if (text.length > charactersMax) return `Too long: at most ${charactersMax} characters.`;
  return v.is(value, text) ? undefined : "Control characters cannot be searched for.";
};

const durationFault = (value: string): string =>
  /^\d+[smhd]$/.test(value)
    ? `At most ${filterSecondsMax / 86_400}d.`
    : "A duration is a whole number and s, m, h or d: 90s, 10m, 12h, 3d.";

const unknownName = (key: string, name: string, choices: readonly string[]): string => {
  const guess = nearest(name.toLowerCase(), choices);
  const remedy = guess === undefined ? `Use one of ${choices.join(", ")}.` : `Did you mean ${guess}?`;
  return choices.length === 1 ? `${key}: takes ${choices[0]}.` : `No ${key} has this name. ${remedy}`;
};

/** Returns the terms of a key, in any case of letters. */
export const termsOf = (key: string): readonly Term[] =>
  key.startsWith(labelPrefix)
    ? [labelTerm(key.slice(labelPrefix.length))]
    : terms.filter((term) => term.key === key.toLowerCase());

/** The parts of a word: `-version:1.2.3` is negated, key `version`, operator `:`, value `1.2.3`. */
export interface TermParts {
  negated: boolean;
  key: string;
  operator: string;
  value: string;
  /** Length of all before the value, in characters of the query. */
  headLength: number;
}

/** `ab:cd:ef:01`: a serial number or a fingerprint as tools print it. */
const colonHex = /^[0-9a-f]{2}(:[0-9a-f]{2}){3,}$/i;

/**
 * Splits a word that looks like `key:value`, `key>value` or `key<value`; undefined for free text. A URI (`spiffe://…`) is free text,
 * unless it begins with a key of the language, and so is a serial number with colons.
 */
export const termParts = ({ text, bareLength }: Pick<Word, "text" | "bareLength">): TermParts | undefined => {
  const [head, minus, key, operator] =
    /^(-?)(label\.[a-z0-9._-]+|[a-z][a-z_]*)(:(?:[<>]=?)?|[<>][=:]?)/i.exec(text.slice(0, bareLength)) ?? [];
  if (head === undefined || key === undefined || operator === undefined) return undefined;
  const value = text.slice(head.length);
  // Case counts in the key of a label.
  const name = key.replace(/^[^.]+/, (word) => word.toLowerCase());
  if (termsOf(name).length === 0 && (value.startsWith("//") || colonHex.test(text.slice((minus ?? "").length))))
    return undefined;
  return { negated: minus === "-", key: name, operator, value, headLength: head.length };
};
