/**
 * The terms of the query language: how a part of the filter is written. Parser, writer, suggestions and reference all read this list. A
 * term stands for one value of its part; `key:a,b` writes several of them, and a minus before the key negates the part.
 */
import * as v from "valibot";
import { anyLabelValue, isLabelKey, isLabelValue, splitLabelPair } from "#proto/labels.ts";
import {
  type DescribedPart,
  filterParts,
  hashDigitsMin,
  type PositivePart,
  positivePartNames,
  versionRangePattern,
} from "../filter.ts";
import { filterSecondsMax } from "../vocabulary.ts";
import { nearest } from "./nearest.ts";
import {
  parseCount,
  parseDuration,
  parsePercent,
  parseSize,
  writeDuration,
  writeSize,
} from "./quantities.ts";
import { readRange, readTime, writeQueryTime, writeRange } from "./times.ts";

/** How values are written: `write` is the inverse of `read`. */
interface Form {
  /** The first is suggested; by default that of the example alone. */
  readonly operators?: readonly string[];
  /** Whether commas separate values. */
  readonly isList: boolean;
  /** Returns the value of a text, undefined for others. `now` decides what a time of day means. */
  read(text: string, now: Date, operator: string): unknown;
  /** Describes what is wrong with a text that is no value. */
  fault(text: string): string;
  /** Returns the text of a value; its key or its operator, if the value decides them. */
  write(value: unknown, now: Date): { key?: string; operator?: string; text: string };
}

/** A key and its operators: how values of `part` are written. */
export interface Term extends Form {
  readonly key: string;
  readonly operators: readonly string[];
  readonly part: PositivePart;
  readonly example: string;
  /** Values that the page suggests; without any, it knows them by itself. */
  readonly examples: readonly string[];
  readonly meaning: string;
}

const asText = (value: unknown) => ({ text: String(value) });

const formOfNames = (
  key: string,
  { choices, hint = "" }: DescribedPart & { choices: readonly string[] },
): Form => ({
  isList: true,
  read: (text) => choices.find((name) => name === text.toLowerCase()),
  fault: (text) => unknownName(key, text, choices) + hint,
  write: asText,
});

/** A part that is compared as text. */
interface TextPart {
  charactersMax: number;
  value: v.GenericSchema;
}

const formOfTexts = (part: TextPart): Form => ({
  isList: true,
  read: (text) => (textFault(part, text) === undefined ? text : undefined),
  fault: (text) => textFault(part, text) ?? "",
  write: asText,
});

const labelPrefix = "label.";

/** The form of every label: each has its own key, see `labelTerm`. */
const labelForm: Form = {
  isList: true,
  read: () => undefined,
  fault: () => "A label has a key, like label.env:prod.",
  write: (value) => {
    const { key, value: text } = splitLabelPair(String(value));
    return { key: `${labelPrefix}${key}`, operator: ":", text };
  },
};

const labelRule =
  "at most 63 letters, digits, dots, dashes and underscores, first and last a letter or digit.";

/** The forms of the values of other parts. */
const forms = {
  duration: {
    isList: false,
    read: parseDuration,
    fault: (text) =>
      /^\d+[smhd]$/.test(text)
        ? `At most ${filterSecondsMax / 86_400}d.`
        : "A duration is a whole number and s, m, h or d: 90s, 10m, 12h, 3d.",
    write: (value) => ({ text: writeDuration(Number(value)) }),
  },
  count: {
    isList: false,
    read: parseCount,
    fault: () => "A count is a whole number, like 0 or 1000.",
    write: asText,
  },
  percent: {
    isList: false,
    read: parsePercent,
    fault: () => "A fill level is a share like 50%, or a size like 10MiB.",
    write: (percent) => ({ text: `${percent}%` }),
  },
  size: {
    isList: false,
    read: parseSize,
    fault: () => "A size is like 10MiB.",
    write: (value) => ({ text: writeSize(Number(value)) }),
  },
  hash: {
    isList: true,
    read: (text) => valid("config", text.toLowerCase()),
    fault: () =>
      `A config hash begins with ${hashDigitsMin} to 64 hexadecimal digits, like f8b4c0.`,
    write: asText,
  },
  version: {
    operators: ["<", "<=", ">", ">="],
    isList: false,
    read: (text, _, operator) =>
      valid("versionRange", `${operator}${text.replace(/^v(?=\d)/i, "")}`),
    fault: () => "A version to compare with is like 1.4, 1.4.2 or 1.4.2-rc.1.",
    write: (value) => {
      const [, operator = "", text = ""] = versionRangePattern.exec(String(value)) ?? [];
      return { operator, text };
    },
  },
  time: {
    isList: false,
    read: readTime,
    fault: () => "A time is like 10:00 (UTC), yesterday, 2026-11-28, 2026-11-28T10:00 or 2h (ago).",
    write: (value, now) => ({ text: writeQueryTime(String(value), now) }),
  },
  range: {
    isList: true,
    read: readRange,
    fault: () =>
      "Write weekend, today, tomorrow, a day or a range like 2026-11-28..2026-11-30; for a duration, expires<3d.",
    write: (value, now) => ({ text: writeRange(String(value), now) }),
  },
} satisfies Record<string, Form>;

const valid = (part: "config" | "versionRange", text: string) =>
  v.is(filterParts[part].value, text) ? text : undefined;

const formOf = (key: string, definition: (typeof filterParts)[PositivePart]): Form => {
  if ("choices" in definition) return formOfNames(key, definition);
  if ("charactersMax" in definition) return formOfTexts(definition);
  return "sorted" in definition ? labelForm : forms[definition.form];
};

/** Returns the term of a part; none for a text, which stands by itself. */
const termsOfPart = (part: PositivePart): Term[] => {
  const definition = filterParts[part];
  const { term, examples = [], meaning }: DescribedPart = definition;
  const [, key, operator = "", example = ""] = /^(\w+)([.:<>])(.+)$/.exec(term) ?? [];
  if (key === undefined) return [];
  const form = formOf(key, definition);
  return [{ key, operators: [operator], part, example, examples, meaning, ...form }];
};

/** The parts that a query has first, and last. Between them, parts are written in the order of their parameters. */
const writtenFirst = [
  "states",
  "device",
  "hostname",
  "identity",
  "platform",
  "version",
  "versionRange",
  "config",
  "desiredConfig",
  "runningConfig",
] as const;
const writtenLast: readonly PositivePart[] = [
  "inventory",
  "budget",
  "progress",
  "attention",
  "condition",
  "forwarder",
];

/** The terms in the order in which a query is written. */
export const terms: readonly Term[] = [
  ...new Set([
    ...writtenFirst,
    ...positivePartNames.filter((part) => !writtenLast.includes(part)),
    ...writtenLast,
  ]),
].flatMap(termsOfPart);

/** Returns why the report would reject a text, for the person who typed it; undefined if it accepts it. */
export const textFault = ({ charactersMax, value }: TextPart, text: string): string | undefined => {
  if (text.length > charactersMax) return `Too long: at most ${charactersMax} characters.`;
  return v.is(value, text) ? undefined : "Control characters cannot be searched for.";
};

const unknownName = (key: string, name: string, choices: readonly string[]) => {
  const guess = nearest(name.toLowerCase(), choices);
  const remedy =
    guess === undefined ? `Use one of ${choices.join(", ")}.` : `Did you mean ${guess}?`;
  return choices.length <= 2
    ? `${key}: takes ${choices.join(" or ")}.`
    : `No ${key} has this name. ${remedy}`;
};

/** `label.env:prod`: the key of a label, in its own case, and its values; `*` for any. */
const labelTerm = (key: string): Term => ({
  ...labelForm,
  key: `${labelPrefix}${key}`,
  part: "label",
  operators: [":"],
  example: "prod",
  examples: [],
  meaning: filterParts.label.meaning,
  read: (text) =>
    isLabelKey(key) && (text === anyLabelValue || isLabelValue(text))
      ? `${key}:${text}`
      : undefined,
  fault: () =>
    isLabelKey(key)
      ? `No label can have this value: ${labelRule} For any value write label.${key}:*.`
      : `No label can have this key: ${labelRule}`,
});

/** Returns the terms of a key, in any case of letters. */
export const termsOf = (key: string): readonly Term[] =>
  key.startsWith(labelPrefix)
    ? [labelTerm(key.slice(labelPrefix.length))]
    : terms.filter((term) => term.key === key.toLowerCase());
