import { InvalidArgumentError, Option } from "commander";
import { parseDuration as secondsOf } from "../../proto/fleet-health/query-language/duration.ts";

/** The reason of a change, for the audit log. */
export const reason = () => new Option("--reason <code>", "why, as a code for the audit log: leaked, decommissioned");

/** An option that takes a whole number. */
export const count = (flags: string, description: string) => new Option(flags, description).argParser(parseCount);

/** An option that may be repeated; its value is a list. */
export const several = (flags: string, description: string) =>
  new Option(flags, `${description}; repeatable`).argParser((value: string, before: string[] = []) => [
    ...before,
    value,
  ]);

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
  const seconds = parseDuration(text);
  if (seconds === 0) throw new InvalidArgumentError("Give 1s or more.");
  return seconds;
};

/** An option that may be repeated, of a few values. */
export const severalOf =
  <Choice extends string>(choices: readonly Choice[]) =>
  (text: string, before: readonly Choice[] = []): Choice[] => {
    const choice = choices.find((each) => each === text);
    if (choice === undefined) throw new InvalidArgumentError(`Allowed choices are ${choices.join(", ")}.`);
    return [...before, choice];
  };

/** Parses `10m` into seconds; throws commander's error. */
export const parseDuration = (text: string): number => {
  const seconds = secondsOf(text);
  if (seconds === undefined)
    throw new InvalidArgumentError("Give a whole number and s, m, h or d: 90s, 10m, 12h, 30d.");
  return seconds;
};

/** Parses `key=value`, and adds it to the labels before it. */
export const parseLabel = (text: string, before: Record<string, string> = {}): Record<string, string> => {
  const [key = "", ...value] = text.split("=");
  if (key === "" || value.length === 0) throw new InvalidArgumentError("Give key=value.");
  return { ...before, [key]: value.join("=") };
};
