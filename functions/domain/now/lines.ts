import type { Outage } from "#functions/store/fleet/counted-time.ts";
import type { FactorKind } from "#proto/fleet-health/factors.ts";
import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import { formatCount, formatCountOf } from "#proto/format.ts";
import type { NowLine, NowReport } from "#proto/now/report.ts";
import { plainLine } from "#proto/plain-text.ts";
import type { CommonFactor } from "#proto/watch/watch.ts";

/** A line before core knows who has taken it. */
export type FoundLine = Omit<NowLine, "taken">;

/** The report of *Now* before claims are added. */
export interface FoundNow extends Pick<NowReport, "strip" | "hosts" | "silenced"> {
  /** When core looked, in milliseconds since the Unix epoch. */
  at: number;
  /** The worst first. */
  lines: readonly FoundLine[];
  /** The kinds of lines that core could not read. */
  unread: ReadonlySet<string>;
  /** The outage of core during which nothing changes its state. */
  hold: Outage | undefined;
}

/** Finds what needs a person, or returns what it found lately; with `isFresh`, always finds it. */
export type FindNow = (how?: { isFresh: true }) => Promise<FoundNow>;

/** Returns the address of the hosts of a filter. */
export const fleetPath = (filter: FleetFilter): string => {
  const params = filterToParams(filter);
  return `/fleet${params.size === 0 ? "" : `?${params}`}`;
};

/** Returns a time in words, to the minute. */
export const atUtc = (at: number | string): string =>
  `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/** Returns a span of time in words, the day once: `2026-11-22 03:00 to 10:00 UTC`. */
export const spanUtc = (from: number, to: number): string => {
  const begin = atUtc(from);
  const end = atUtc(to);
  const isOneDay = begin.slice(0, 10) === end.slice(0, 10);
  return `${begin.slice(0, 16)} to ${isOneDay ? end.slice(11) : end}`;
};

/** The verb of each fact, which follows the number of hosts: `41 of them are on subnet 10.4.2.0/24`. */
const factorVerbs: Readonly<Record<FactorKind, string>> = {
  label: "have the label",
  version: "run version",
  platform: "run on",
  running_config: "run the config",
  desired_config: "should run the config",
  drift: "have the drift",
  core: "report to the core",
  subnet: "are on subnet",
  policy: "enrolled under the policy",
  source: "have the source",
};

/** Returns what most hosts of a line have in common: `41 of them are on subnet 10.4.2.0/24, and no other host.` */
export const factorSentence = ({ kind, value, selected, others }: CommonFactor) =>
  `${formatCount(selected)} of them ${factorVerbs[kind]} ${plainLine(value)}, and ${others === 0 ? "no other host" : formatCountOf(others, "other host")}.`;
