import type { ProgressHosts } from "#proto/fleet-health/config-report.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { defaultView, viewPath } from "../fleet/view/view-state.ts";
import { formatCount, formatCountOf, formatTimestamp, type TimeZone } from "../format/format.ts";

/** The figures of a config's hosts that the page links. */
export type ProgressFigure = Exclude<keyof ProgressHosts, "finished_at"> | "left";

const notRevoked = fleetStates.filter((state) => state !== "revoked");

const filters: Record<ProgressFigure, (hash: string) => FleetFilter> = {
  desired: (hash) => ({ states: notRevoked, desiredConfig: [hash] }),
  running: (hash) => ({ desiredConfig: [hash], progress: ["running"] }),
  failed: (hash) => ({ desiredConfig: [hash], progress: ["failed"] }),
  drifted: (hash) => ({ desiredConfig: [hash], progress: ["drifted"] }),
  silent: (hash) => ({ desiredConfig: [hash], progress: ["silent"] }),
  silent_running: (hash) => ({
    desiredConfig: [hash],
    runningConfig: [hash],
    progress: ["silent"],
  }),
  undesired: (hash) => ({ states: notRevoked, runningConfig: [hash], notDesiredConfig: [hash] }),
  left: (hash) => ({ states: notRevoked, desiredConfig: [hash], notRunningConfig: [hash] }),
};

/** Returns the address of exactly the hosts that a figure counts. */
export const figurePath = (figure: ProgressFigure, hash: string): string =>
  viewPath({ ...defaultView, filter: filters[figure](hash) });

/** Returns the address of the hosts that last reported a hash, whatever is desired. */
export const runningPath = (hash: string): string =>
  viewPath({ ...defaultView, filter: { states: notRevoked, runningConfig: [hash] } });

/** Returns how many hosts should run the config and did not report it last. */
export const hostsLeft = ({
  desired,
  running,
  silent_running: silentRunning,
}: ProgressHosts): number => desired - running - silentRunning;

/** Returns which hosts keep a config from running on all of its hosts: those left, or those that went silent with it. */
export const openFigure = (hosts: ProgressHosts) =>
  (hostsLeft(hosts) > 0 && "left") || (hosts.silent_running > 0 && "silent_running");

/** Reports whether all hosts run the config, in words: when, or how many hosts are left or silent. */
export const progressSentence = (hosts: ProgressHosts, zone: TimeZone = "utc"): string => {
  const { desired, silent_running: silent, finished_at: at } = hosts;
  if (desired === 0) return "Assigned to no host.";
  const of = `of ${formatCountOf(desired, "host")}`;
  const left = hostsLeft(hosts);
  if (left > 0) return `${formatCount(left)} ${of} left: not finished.`;
  const when = at === null ? "" : ` at ${formatTimestamp(at, zone)}`;
  if (silent > 0)
    return `${formatCount(silent)} ${of} ${silent === 1 ? "has" : "have"} gone silent since it finished${when}.`;
  return `Finished${when}: ${desired === 1 ? "the host runs" : `all ${formatCount(desired)} hosts run`} it.`;
};

/** The parts of the bar, in the order drawn. */
export const barParts = ["running", "drifted", "failed", "silent"] as const;

/** What each figure means, for the page of one config. */
export const figureMeanings: Readonly<Record<(typeof barParts)[number], string>> = {
  running: "last heartbeat names this config",
  drifted: "last heartbeat names another config",
  failed: "last heartbeat reports an invalid config",
  silent: "no heartbeat since the assignment, or stale",
};

/** Returns the name of a config, or the beginning of its hash without one. */
export const configName = ({
  name,
  config_hash: hash,
}: {
  name: string | null;
  config_hash: string;
}): string => name ?? hash.slice(0, 12);

/** Returns the lines of a text without their line breaks; a break at the end begins no line. */
export const linesOf = (text: string): string[] => {
  const lines = text.split(/\r\n|\r|\n/);
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
};
