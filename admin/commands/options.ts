import { InvalidArgumentError, Option } from "commander";
import { parseDuration as secondsOf } from "../../proto/fleet-health/query-language/duration.ts";
import { parseSize } from "../../proto/fleet-health/query-language/quantities.ts";

/** The reason of a change, for the audit log. */
export const reason = () =>
  new Option("--reason <code>", "why, as a code for the audit log: leaked, decommissioned");

/** The most items of a list. */
export const limit = (what: string) =>
  new Option("--limit <count>", what).argParser((text) => {
    const value = parseCount(text);
    if (value === 0) throw new InvalidArgumentError("Give 1 or more.");
    return value;
  });

/** The selection of every host by a change, which an empty query alone is not. */
export const all = () => new Option("--all", "every host, in the place of a query");

/** A time as an option: so many seconds before core's clock, or in UTC. */
export type Instant = { secondsAgo: number } | { at: string };

/** Returns a time as a query has it: core counts back from its own clock. */
export const textOfInstant = (time: Instant | undefined): string | undefined =>
  time && ("at" in time ? time.at : `${time.secondsAgo}s`);

/** An option that takes a time. */
export const instant = (flags: string, description: string) =>
  new Option(flags, `${description}: 2h, or RFC 3339`).argParser(parseInstant);

/** RFC 3339, or to the minute. */
const rfc3339Pattern = /^(\d{4}-\d\d-(\d\d)T\d\d:\d\d(:\d\d)?)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i;

/** Parses `2h`, or a time with its offset from UTC; throws commander's error. */
export const parseInstant = (text: string): Instant => {
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

/** An option that takes a whole number. */
export const count = (flags: string, description: string) =>
  new Option(flags, description).argParser(parseCount);

/** An option that may be repeated; its value is a list. */
export const several = (flags: string, description: string) =>
  new Option(flags, `${description}; repeatable`).argParser(
    (value: string, before: string[] = []) => [...before, value],
  );

const parseCount = (text: string): number => {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("Give a whole number.");
  return Number(text);
};

/** How often a command that watches asks core. */
export const interval = (byDefault: string) =>
  new Option("--interval <duration>", "how often to ask core")
    .argParser(parseInterval)
    .default(secondsOf(byDefault), byDefault);

const parseInterval = (text: string): number => {
  const seconds = durationOption(text);
  if (seconds === 0) throw new InvalidArgumentError("Give 1s or more.");
  return seconds;
};

/** An option that may be repeated, of a few values. */
export const severalOf =
  <Choice extends string>(choices: readonly Choice[]) =>
  (text: string, before: readonly Choice[] = []): Choice[] => {
    const choice = choices.find((each) => each === text);
    if (choice === undefined)
      throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`);
    return [...before, choice];
  };

/** Parses `500MiB` into bytes; throws commander's error. */
export const size = (text: string): number => {
  const bytes = parseSize(text);
  if (bytes === undefined) throw new InvalidArgumentError("Give a size, such as 500MiB or 2GiB.");
  return bytes;
};

/** Parses `10m` into seconds; throws commander's error. */
export const durationOption = (text: string): number => {
  const seconds = secondsOf(text);
  if (seconds === undefined)
    throw new InvalidArgumentError("Give a whole number and s, m, h or d: 90s, 10m, 12h, 30d.");
  return seconds;
};

/** Parses `key=value`, and adds it to the labels before it. */
export const parseLabel = (
  text: string,
  before: Record<string, string> = {},
): Record<string, string> => {
  const [key = "", ...value] = text.split("=");
  if (key === "" || value.length === 0) throw new InvalidArgumentError("Give key=value.");
  return { ...before, [key]: value.join("=") };
};
