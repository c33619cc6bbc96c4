import { hourMs } from "../../../kit/clock.ts";
import type { HostComparison, MatchKey } from "../../../proto/fleet-health/comparison.ts";
import type { FollowedHost, HostFigures } from "../../store/fleet/host-hours.ts";
import { type ComparedHost, compareGroups, type HostWindow } from "./compare-groups.ts";

/** How hosts are matched that had the same version before: by labels too, unless these tell single hosts apart. */
export const unchangedMatches: readonly (readonly MatchKey[])[] = [
  ["platform", "version", "labels"],
  ["platform", "version"],
];

/**
 * Compares changed hosts with others that have the same platform, version and labels, or whichever of `matches` comes first by which more changed
 * hosts have a counterpart than not: labels may tell single hosts apart.
 */
export const compareFollowed = (
  hosts: readonly FollowedHost[],
  matches: readonly (readonly MatchKey[])[],
  now: Date,
): HostComparison => {
  const compare = (keys: readonly MatchKey[]) => {
    const group = (isControl: boolean) =>
      hosts.filter((host) => host.isControl === isControl).map((host) => comparedHost(host, keys));
    return {
      at: now.toISOString(),
      matched_by: [...keys],
      ...compareGroups(group(false), group(true)),
    };
  };
  let comparison = compare(matches[0] ?? []);
  for (const keys of matches.slice(1))
    if (comparison.unmatched > comparison.changed) comparison = compare(keys);
  return comparison;
};

const comparedHost = (host: FollowedHost, keys: readonly MatchKey[]): ComparedHost => {
  const {
    platform,
    version,
    labelSetId: labels,
    isSilent,
    before,
    atChange,
    sinceThen,
    now,
    sent,
  } = host;
  return {
    stratum: JSON.stringify(keys.map((key) => ({ platform, version, labels })[key])),
    isSilent,
    before: before && atChange && windowOf(before, atChange),
    after: isSilent || sinceThen === null ? null : windowOf(sinceThen, now),
    sent,
  };
};

/** What happened between two heartbeats; null if the second is not the later one. */
const windowOf = (from: HostFigures, to: HostFigures): HostWindow | null => {
  const hours = (to.at - from.at) / hourMs;
  if (!(hours > 0)) return null;
  const isSameProcess = from.starts === to.starts && from.cpuMs >= 0 && to.cpuMs >= from.cpuMs;
  return {
    // A new queue counts from 0.
    lostPerHour: Math.max(0, to.lostRecords - from.lostRecords) / hours,
    startsPerHour: Math.max(0, to.starts - from.starts) / hours,
    queueBytes: to.queueBytes,
    rssBytes: to.rssBytes >= 0 ? to.rssBytes : null,
    cpuShare: isSameProcess ? (to.cpuMs - from.cpuMs) / (hours * hourMs) : null,
  };
};
