/**
 * The terms of the query language: how a part of the filter is written. Parser, writer, suggestions and reference all read this list. A
 * term stands for one value of its part; `key:a,b` writes several of them, and a minus before the key negates the part.
 */
import * as v from "valibot";
import { anyLabelValue, isLabelKey, isLabelValue, splitLabelPair } from "#proto/labels.ts";
import { figureFilters } from "#proto/management/reported-numbers.ts";
import { filterParts, hashDigitsMin, type PositivePart, versionRangePattern } from "../filter.ts";
import { filterSecondsMax } from "../vocabulary.ts";
import { parseDuration, writeDuration } from "./duration.ts";
import { nearest } from "./nearest.ts";
import { parseCount, parsePercent, parseSize, writeSize } from "./quantities.ts";
import { readRange, readTime, writeQueryTime, writeRange } from "./times.ts";

/** A value as a term writes it: `>10m` is the operator `>` and the text `10m`. */
export interface Written {
  /** The key of a label's term, which its value decides. */
  key?: string;
  operator: string;
  text: string;
}

/** The result of reading a value, or the fault in words. */
type Read = { value: unknown } | { fault: string };

/** A key and its operators: how values of `part` are written. `write` is the inverse of `read`. */
export interface Term {
  readonly key: string;
  /** The first is suggested. */
  readonly operators: readonly string[];
  readonly part: PositivePart;
  /** Whether commas separate values. */
  readonly isList: boolean;
  readonly example: string;
  /** Values that the page suggests; without any, it knows them by itself. */
  readonly examples?: readonly string[];
  readonly meaning: string;
  /** `now` decides what a time of day means. */
  read(written: Written, now: Date): Read;
  write(value: unknown, now: Date): Written;
}

/** A part that is compared as text. */
type TextPart =
  | "text"
  | "device"
  | "hostname"
  | "identity"
  | "platform"
  | "version"
  | "core"
  | "subnet"
  | "policy"
  | "source";

/** A part whose values are choices. */
type ChoicePart = {
  [Part in PositivePart]: (typeof filterParts)[Part] extends { choices: infer _ } ? Part : never;
}[PositivePart];

const names = (
  part: ChoicePart,
  {
    key = part as string,
    example,
    meaning,
    hint = "",
  }: { key?: string; example: string; meaning: string; hint?: string },
): Term => {
  const choices: readonly string[] = filterParts[part].choices;
  return {
    key,
    part,
    example,
    meaning,
    operators: [":"],
    isList: true,
    read: ({ text }) => {
      const value = choices.find((name) => name === text.toLowerCase());
      return value === undefined ? { fault: unknownName(key, text, choices) + hint } : { value };
    },
    write: (value) => ({ operator: ":", text: String(value) }),
  };
};

const texts = (part: Exclude<TextPart, "text">, example: string, meaning: string): Term => ({
  key: part,
  part,
  example,
  meaning,
  operators: [":"],
  isList: true,
  read: ({ text }) => {
    const fault = textFault(part, text);
    return fault === undefined ? { value: text } : { fault };
  },
  write: (value) => ({ operator: ":", text: String(value) }),
});

const seconds = (
  key: string,
  operator: ">" | "<",
  part: `${string}Seconds` & PositivePart,
  { example, meaning }: { example: string; meaning: string },
): Term => ({
  key,
  part,
  example,
  meaning,
  operators: [operator],
  isList: false,
  read: ({ text }) => {
    const value = parseDuration(text);
    return value === undefined ? { fault: durationFault(text) } : { value };
  },
  write: (value) => ({ operator, text: writeDuration(Number(value)) }),
});

const labelPrefix = "label.";

/** The term of every label: each has its own key, see `labelTerm`. */
const label: Term = {
  key: "label",
  part: "label",
  example: "env:prod",
  meaning: "label of the host",
  operators: ["."],
  isList: true,
  read: () => ({ fault: "A label has a key, like label.env:prod." }),
  write: (value) => {
    const { key, value: text } = splitLabelPair(String(value));
    return { key: `${labelPrefix}${key}`, operator: ":", text };
  },
};

/** `label.env:prod`: the key of a label, in its own case, and its values; `*` for any. */
const labelTerm = (key: string): Term => ({
  ...label,
  key: `${labelPrefix}${key}`,
  operators: [":"],
  example: "prod",
  read: ({ text }) => {
    if (!isLabelKey(key)) return { fault: `No label can have this key: ${labelRule}` };
    return text === anyLabelValue || isLabelValue(text)
      ? { value: `${key}:${text}` }
      : { fault: `No label can have this value: ${labelRule} For any value write label.${key}:*.` };
  },
});

const labelRule =
  "at most 63 letters, digits, dots, dashes and underscores, first and last a letter or digit.";

interface Quantity {
  read: (text: string) => number | undefined;
  write: (value: number) => string;
  fault: string;
}

/** A term of one value, for more than that. */
const above = (
  term: Pick<Term, "key" | "part" | "example" | "examples" | "meaning">,
  { read, write, fault }: Quantity,
): Term => ({
  ...term,
  operators: [">"],
  isList: false,
  read: ({ text }) => {
    const value = read(text);
    return value === undefined ? { fault } : { value };
  },
  write: (value) => ({ operator: ">", text: write(Number(value)) }),
});

const counts: Quantity = {
  read: parseCount,
  write: String,
  fault: "A count is a whole number, like 0 or 1000.",
};

const fill: Quantity = {
  read: parsePercent,
  write: (percent) => `${percent}%`,
  fault: "A fill level is a share like 50%, or a size like 10MiB.",
};

const sizes: Quantity = { read: parseSize, write: writeSize, fault: "A size is like 10MiB." };

const hashes = (
  key: string,
  part: "config" | "desiredConfig" | "runningConfig",
  meaning: string,
): Term => ({
  key,
  part,
  example: "f8b4c0",
  meaning,
  operators: [":"],
  isList: true,
  read: ({ text }) => {
    const value = text.toLowerCase();
    return v.is(filterParts[part].value, value)
      ? { value }
      : {
          fault: `A config hash begins with ${hashDigitsMin} to 64 hexadecimal digits, like f8b4c0.`,
        };
  },
  write: (value) => ({ operator: ":", text: String(value) }),
});

const versionRange: Term = {
  key: "version",
  part: "versionRange",
  example: "1.4",
  meaning: "version below, by SemVer",
  operators: ["<", "<=", ">", ">="],
  isList: false,
  read: ({ operator, text }) => {
    const value = `${operator}${text.replace(/^v(?=\d)/i, "")}`;
    return v.is(filterParts.versionRange.value, value)
      ? { value }
      : { fault: "A version to compare with is like 1.4, 1.4.2 or 1.4.2-rc.1." };
  },
  write: (value) => {
    const [, operator = "", text = ""] = versionRangePattern.exec(String(value)) ?? [];
    return { operator, text };
  },
};

const since: Term = {
  key: "since",
  part: "silentSince",
  example: "10:00",
  meaning: "has forwarded, but nothing since a time in UTC",
  operators: [":"],
  isList: false,
  read: ({ text }, now) => {
    const value = readTime(text, now);
    return value === undefined
      ? {
          fault:
            "A time is like 10:00 (UTC), yesterday, 2026-11-28, 2026-11-28T10:00 or, so long ago, 2h.",
        }
      : { value };
  },
  write: (value, now) => ({ operator: ":", text: writeQueryTime(String(value), now) }),
};

const expiresIn: Term = {
  key: "expires",
  part: "expires",
  example: "weekend",
  meaning: "expires on a day or in a range, in UTC",
  operators: [":"],
  isList: true,
  read: ({ text }, now) => {
    const value = readRange(text, now);
    return value === undefined
      ? {
          fault:
            "Write weekend, today, tomorrow, a day or a range like 2026-11-28..2026-11-30; for a duration, expires<3d.",
        }
      : { value };
  },
  write: (value, now) => ({ operator: ":", text: writeRange(String(value), now) }),
};

/** The terms in the order in which a query is written. */
export const terms: readonly Term[] = [
  names("states", { key: "state", example: "stale,revoked", meaning: "health state" }),
  texts("device", "web-01", "exact device id"),
  texts("hostname", "web-01.example.com", "exact hostname"),
  texts("identity", "spiffe://fleet/web-01", "exact identity"),
  texts("platform", "linux", "platform, or operating system alone"),
  texts("version", "1.4.0", "collector version; 1.4.* for all of 1.4"),
  versionRange,
  hashes("config", "config", "desired, running or last good config begins with"),
  hashes("desired", "desiredConfig", "desired config begins with"),
  hashes("running", "runningConfig", "running config begins with"),
  label,
  texts("core", "core-1", "machine of the core that the last heartbeat reached"),
  texts("subnet", "10.1.2.0/24", "the /24 or /64 that it came from, as core saw it"),
  texts("policy", "servers", "enrollment policy"),
  texts("source", "syslog", "source of telemetry that it has accepted records of since yesterday"),
  names("drift", { example: "drifted", meaning: "running config against desired" }),
  names("heartbeat", {
    example: "recent",
    meaning: "last heartbeat is recent; for an age, hb>10m",
    hint: " For an age write hb>10m.",
  }),
  names("forwarding", { example: "stopped", meaning: "forwards now, stopped, or never did" }),
  names("auth", {
    example: "failed",
    meaning: "failed: an authentication failed in the last 24 h; failing: and no heartbeat since",
  }),
  seconds("hb", ">", "heartbeatOlderThanSeconds", {
    example: "10m",
    meaning: "last heartbeat longer ago than",
  }),
  seconds("hb", "<", "heartbeatWithinSeconds", {
    example: "10m",
    meaning: "last heartbeat within",
  }),
  seconds("fwd", ">", "envelopeOlderThanSeconds", {
    example: "10m",
    meaning: "last envelope longer ago than",
  }),
  seconds("fwd", "<", "envelopeWithinSeconds", { example: "10m", meaning: "last envelope within" }),
  since,
  seconds("changed", "<", "changedWithinSeconds", {
    example: "1h",
    meaning: "enrolled, revoked, another version or config, or a condition began or ended, within",
  }),
  seconds("incomplete", "<", "incompleteWithinSeconds", {
    example: "24h",
    meaning: "an incomplete hour within",
  }),
  seconds("expires", "<", "expiresWithinSeconds", {
    example: "3d",
    meaning: "certificate has expired by then",
  }),
  expiresIn,
  above(
    {
      key: "dropped",
      part: "droppedMoreThan",
      example: "0",
      meaning: "lost records, in all, more than",
    },
    counts,
  ),
  above(
    {
      key: "queue",
      part: "queueAbovePercent",
      example: "50%",
      meaning: "queue fuller than, of its limit",
    },
    fill,
  ),
  ...figureFilters.map(({ unit, figure: _, parameter: __, ...term }) => {
    const [quantity, than] = unit === "bytes" ? [sizes, "larger than"] : [counts, "more than"];
    return above(
      { ...term, meaning: `${term.key} ${than}`, example: term.examples.at(-1) ?? "" },
      quantity,
    );
  }),
  seconds("fills", "<", "queueFullWithinSeconds", {
    example: "3d",
    meaning: "queue full within, as it fills",
  }),
  names("inventory", {
    example: "unexpected,gone",
    meaning: "in the inventory; not in it; no longer in it, and still sending",
    hint: " Hosts that never enrolled have no row: /inventory lists them.",
  }),
  names("budget", {
    example: "held",
    meaning: "sent its budget of this hour; core stores no more until it ends",
  }),
  names("progress", {
    example: "drifted,failed",
    meaning: "what a host has made of its desired config",
  }),
  names("attention", { example: "needed", meaning: "hosts that need somebody" }),
  names("condition", { example: "stale", meaning: "a condition that applies, whatever the state" }),
  names("forwarder", {
    example: "disconnected",
    meaning: "connection to core, as the host reports it",
  }),
];

/** Returns why the report would reject a text, for the person who typed it; undefined if it accepts it. */
export const textFault = (field: TextPart, text: string): string | undefined => {
  const { charactersMax, value } = filterParts[field];
  if (text.length > charactersMax) return `Too long: at most ${charactersMax} characters.`;
  return v.is(value, text) ? undefined : "Control characters cannot be searched for.";
};

const durationFault = (value: string) =>
  /^\d+[smhd]$/.test(value)
    ? `At most ${filterSecondsMax / 86_400}d.`
    : "A duration is a whole number and s, m, h or d: 90s, 10m, 12h, 3d.";

const unknownName = (key: string, name: string, choices: readonly string[]) => {
  const guess = nearest(name.toLowerCase(), choices);
  const remedy =
    guess === undefined ? `Use one of ${choices.join(", ")}.` : `Did you mean ${guess}?`;
  return choices.length <= 2
    ? `${key}: takes ${choices.join(" or ")}.`
    : `No ${key} has this name. ${remedy}`;
};

/** Returns the terms of a key, in any case of letters. */
export const termsOf = (key: string): readonly Term[] =>
  key.startsWith(labelPrefix)
    ? [labelTerm(key.slice(labelPrefix.length))]
    : terms.filter((term) => term.key === key.toLowerCase());
