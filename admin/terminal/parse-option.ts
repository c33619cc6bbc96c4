import { InvalidArgumentError } from "commander";
import {
  parseSize,
  parseDuration as secondsOf,
} from "#proto/fleet-health/query-language/quantities.ts";

/** The time of an option: seconds before core's clock, or in UTC. */
export type Instant = { secondsAgo: number } | { at: string };

/** Returns a time as a query parameter: core subtracts seconds from its own clock. */
export const textOfInstant = (time: Instant | undefined): string | undefined =>
  time && ("at" in time ? time.at : `${time.secondsAgo}s`);

/** RFC 3339, or to the minute. */
const rfc3339Pattern = /^(\d{4}-\d\d-(\d\d)T\d\d:\d\d(:\d\d)?)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i;

/** Parses `2h`, or a time with its offset from UTC; throws commander's error. */
const parseInstant = (text: string): Instant => {
  const secondsAgo = secondsOf(text);
  if (secondsAgo !== undefined && secondsAgo > 0) return { secondsAgo };
  const [, local = "", day] = rfc3339Pattern.exec(text) ?? [];
  const ms = Date.parse(text);
  // Date.parse turns 30 February into 2 March.
  if (Number.isNaN(ms) || new Date(`${local}Z`).getUTCDate() !== Number(day))
    throw new InvalidArgumentError(
      "Give how long ago, such as 90s, 2h or 30d, or a time such as 2026-11-22T10:00:00Z.",
    );
  return { at: new Date(ms).toISOString() };
};

/** Parses a whole number; throws commander's error. */
export const parseWholeNumber = (text: string): number => {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("Give a whole number.");
  return Number(text);
};

/** Returns the parser, which now throws for 0. */
const positive =
  (parse: (text: string) => number, least: string) =>
  (text: string): number => {
    const value = parse(text);
    if (value === 0) throw new InvalidArgumentError(`Give ${least} or more.`);
    return value;
  };

/** Parses `10m` into seconds; throws commander's error. */
export const durationOption = (text: string): number => {
  const seconds = secondsOf(text);
  if (seconds === undefined)
    throw new InvalidArgumentError("Give a whole number and s, m, h or d: 90s, 10m, 12h, 30d.");
  return seconds;
};

const parseByteSize = (text: string) => {
  const bytes = parseSize(text);
  if (bytes === undefined) throw new InvalidArgumentError("Give a size, such as 500MiB or 2GiB.");
  return bytes;
};

/** Parses `key=value`, and adds it to the labels before it. */
const parseLabel = (text: string, before: Record<string, string> = {}): Record<string, string> => {
  const [key = "", ...value] = text.split("=");
  if (key === "" || value.length === 0) throw new InvalidArgumentError("Give key=value.");
  return { ...before, [key]: value.join("=") };
};

/** The parsers of options, by the name of the value in the help: each throws commander's error. */
export const parserOf: Readonly<Record<string, (text: string) => unknown>> = {
  time: parseInstant,
  duration: durationOption,
  count: parseWholeNumber,
  size: parseByteSize,
  "key=value": parseLabel,
};

/** Returns the parser of an option that may be repeated, of any text or of a few. */
export const severalOf =
  (choices?: readonly string[]) =>
  (text: string, before: readonly string[] = []): string[] => {
    if (choices?.includes(text) === false)
      throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`);
    return [...before, text];
  };

/** The definition of `--limit`: the most items of a list. */
export const limit = (says: string) => ({ says, parse: positive(parseWholeNumber, "1") });

/** The definition of `--interval`. */
export const interval = (byDefault: string) => ({
  says: "how often to ask core",
  parse: positive(durationOption, "1s"),
  default: byDefault,
});

/** Returns the description of an option that takes a time. */
export const instant = (description: string) => `${description}: 2h, or RFC 3339`;

/** The definition of `--reason`, for the audit log. */
export const reasonCode = {
  says: "why, as a code for the audit log: leaked, decommissioned",
  field: "reason_code",
};

/** The description of `--all`: the selection of every host by a change, which an empty query alone is not. */
export const everyHost = "every host, in the place of a query";
