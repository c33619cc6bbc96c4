import { Problem } from "#functions/problems.ts";
import {
  type FollowedHost,
  findFollowedHosts,
  type HostFigures,
  hostsOfFilter,
  keptHours,
} from "#functions/store/fleet/host-hours.ts";
import { hourMs } from "#kit/clock.ts";
import { differenceOfMeans, differenceOfShares, type EstimatedDifference } from "#kit/intervals.ts";
import { shareNextRun } from "#kit/share-next-run.ts";
import {
  type ComparedMeasure,
  type ComparedSignal,
  type ComparisonVerdict,
  comparedHostsMin,
  comparedMeasures,
  comparedSignals,
  type HostComparison,
  type MatchKey,
  type SentVolume,
} from "#proto/fleet-health/comparison.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import { readFleetRules, type ViewCore } from "./rules.ts";

/** A host's figures over a period. Null: it reported none, or from two processes, whose figures cannot be compared. */
interface HostWindow {
  lostPerHour: number;
  startsPerHour: number;
  queueBytes: number;
  rssBytes: number | null;
  /** CPU seconds in a second. */
  cpuShare: number | null;
}

/** A host, before and after the change. */
export interface ComparedHost {
  /** Hosts are compared with those of the same stratum. */
  stratum: string;
  /** It has sent no heartbeat for longer than the threshold. */
  isSilent: boolean;
  /** Null if unknown. */
  before: HostWindow | null;
  after: HostWindow | null;
  /** Null without a whole hour before the change and after it. */
  sent: { before: SentVolume; after: SentVolume } | null;
}

type GroupComparison = Omit<HostComparison, "at" | "matched_by">;
type MeasureResult = GroupComparison["measures"][number];

interface Measure {
  /** Smaller differences do not matter. */
  margin: number;
  /** Reports whether it is true of a host, or a number whose means are compared; null if unknown. */
  observe(host: ComparedHost): boolean | number | null;
}

/** Controls for each changed host. */
const controlsMax = 4;
/** The probability of a verdict when the change has no effect, over all measures together. */
const errorMax = 0.05;

/** The keys by which hosts with the same version before are matched. Labels are dropped first, as they may differ for each host. */
export const unchangedMatches: readonly (readonly MatchKey[])[] = [
  ["platform", "version", "labels"],
  ["platform", "version"],
];

/**
 * Compares changed hosts with unchanged ones that have the same values of `matches[0]`. Falls back to the next keys while fewer than half
 * of the changed hosts have a counterpart.
 */
export const compareFollowed = (
  hosts: readonly FollowedHost[],
  matches: readonly (readonly MatchKey[])[],
  now: Date,
): HostComparison => {
  const compare = (keys: readonly MatchKey[]) => {
    const changed = hosts.filter(({ isControl }) => !isControl);
    const control = hosts.filter(({ isControl }) => isControl);
    const compared = (group: readonly FollowedHost[]) =>
      group.map((host) => comparedHost(host, keys));
    return {
      at: now.toISOString(),
      matched_by: [...keys],
      ...compareGroups(compared(changed), compared(control)),
    };
  };
  let comparison = compare(matches[0] ?? []);
  for (const keys of matches.slice(1))
    if (comparison.unmatched > comparison.changed) comparison = compare(keys);
  return comparison;
};

const comparedHost = (host: FollowedHost, keys: readonly MatchKey[]): ComparedHost => {
  const { isSilent, before, atChange, sinceThen, now, sent } = host;
  return {
    stratum: JSON.stringify(keys.map((key) => host[key === "labels" ? "labelSetId" : key])),
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

const rose = (figure: (window: HostWindow) => number) => ({
  observe: ({ before, after }: ComparedHost) =>
    before && after ? figure(after) > figure(before) : null,
});
/** Relative growth, so that large and small hosts count alike. */
const growth = (figure: (window: HostWindow) => number | null) => ({
  observe: ({ before, after }: ComparedHost) => {
    const from = before && figure(before);
    const to = after && figure(after);
    return from !== null && to !== null && from > 0 && to > 0 ? Math.log(to / from) : null;
  },
});

const measures: Readonly<Record<ComparedMeasure, Measure>> = {
  silent: { margin: 0.01, observe: ({ isSilent }) => isSilent },
  losing: { margin: 0.01, ...rose(({ lostPerHour }) => lostPerHour) },
  restarting: { margin: 0.01, ...rose(({ startsPerHour }) => startsPerHour) },
  queue_growing: { margin: 0.1, ...rose(({ queueBytes }) => queueBytes) },
  memory: { margin: Math.log(1.1), ...growth(({ rssBytes }) => rssBytes) },
  cpu: { margin: Math.log(1.1), ...growth(({ cpuShare }) => cpuShare) },
};

/**
 * Compares the changes of two groups (difference in differences): effects on all hosts cancel out, and so do earlier differences between
 * the groups. Takes the first hosts of each stratum, with equally many controls for each changed host, so both groups must be in random order.
 */
export const compareGroups = (
  changed: readonly ComparedHost[],
  others: readonly ComparedHost[],
): GroupComparison => {
  const { matched, control } = matchGroups(changed, others);
  const results = comparedMeasures.map((measure) => compareMeasure(measure, matched, control));
  return {
    verdict: verdictOf(results),
    changed: matched.length,
    control: control.length,
    unmatched: changed.length - matched.length,
    measures: results,
    ...compareVolume(matched, control),
  };
};

/** Added to both figures, so that a host which begins or ceases to send has a finite growth. */
const sentMin = { bytes: 1024, envelopes: 1 };

const compareVolume = (changed: readonly ComparedHost[], others: readonly ComparedHost[]) => {
  if (changed.every(({ sent }) => sent === null)) return {};
  const volume = comparedSignals.flatMap((signal) => {
    const isSender = ({ sent }: ComparedHost) => sent?.before[signal] ?? sent?.after[signal];
    const senders = changed.filter(isSender);
    if (senders.length === 0) return [];
    return [compareSignal(signal, senders, others.filter(isSender))];
  });
  return { volume };
};

const compareSignal = (
  signal: ComparedSignal,
  changed: readonly ComparedHost[],
  others: readonly ComparedHost[],
) => {
  const isEnough = Math.min(changed.length, others.length) >= comparedHostsMin;
  const confidence = 1 - errorMax / (2 * comparedSignals.length);
  const differenceOf = (figure: keyof typeof sentMin) => {
    if (!isEnough) return null;
    const growthOf = ({ sent }: ComparedHost) => {
      const before = sent?.before[signal]?.[figure] ?? 0;
      const after = sent?.after[signal]?.[figure] ?? 0;
      return Math.log((after + sentMin[figure]) / (before + sentMin[figure]));
    };
    return relative(differenceOfMeans(changed.map(growthOf), others.map(growthOf), confidence));
  };
  return {
    signal,
    changed: changed.length,
    control: others.length,
    difference: differenceOf("bytes"),
    envelopes: differenceOf("envelopes"),
  };
};

/** Converts a difference of logarithms to a relative one. */
const relative = ({ value, low, high }: EstimatedDifference): EstimatedDifference => ({
  value: Math.expm1(value),
  low: Math.expm1(low),
  high: Math.expm1(high),
});

/** Takes hosts of both groups so that each stratum has the same share of both. */
const matchGroups = (changed: readonly ComparedHost[], others: readonly ComparedHost[]) => {
  const strata = [...Map.groupBy(changed, ({ stratum }) => stratum)];
  const othersOf = Map.groupBy(others, ({ stratum }) => stratum);
  const match = (ratio: number) =>
    strata.map(([stratum, hosts]) => {
      const candidates = othersOf.get(stratum) ?? [];
      const matched = Math.min(hosts.length, Math.floor(candidates.length / ratio));
      return { matched: hosts.slice(0, matched), control: candidates.slice(0, matched * ratio) };
    });
  const matchedHosts = (groups: ReturnType<typeof match>) =>
    groups.reduce((sum, { matched }) => sum + matched.length, 0);
  const single = match(1);
  let best = single;
  for (let ratio = 2; ratio <= controlsMax; ratio++) {
    const groups = match(ratio);
    // Never leaves out a changed host for the sake of more controls.
    if (matchedHosts(groups) === matchedHosts(single)) best = groups;
  }
  return {
    matched: best.flatMap(({ matched }) => matched),
    control: best.flatMap(({ control }) => control),
  };
};

const compareMeasure = (
  measure: ComparedMeasure,
  changed: readonly ComparedHost[],
  others: readonly ComparedHost[],
): MeasureResult => {
  const { margin, observe } = measures[measure];
  const valuesOf = (hosts: readonly ComparedHost[]) => hosts.flatMap((host) => observe(host) ?? []);
  const ofChanged = valuesOf(changed);
  const ofOthers = valuesOf(others);
  const counts = { measure, changed: ofChanged.length, control: ofOthers.length };
  if (Math.min(ofChanged.length, ofOthers.length) < comparedHostsMin)
    return { ...counts, verdict: "too_few", difference: null };
  const confidence = 1 - errorMax / comparedMeasures.length;
  const isShare = ofChanged.every((value) => typeof value === "boolean");
  const difference = isShare
    ? differenceOfShares(shareOf(ofChanged), shareOf(ofOthers), confidence)
    : differenceOfMeans(ofChanged.map(Number), ofOthers.map(Number), confidence);
  const verdict = verdictOfInterval(difference, margin);
  return { ...counts, verdict, difference: isShare ? difference : relative(difference) };
};

const verdictOfInterval = ({ low, high }: EstimatedDifference, margin: number) => {
  if (low > margin) return "worse";
  if (high < -margin) return "better";
  return low >= -margin && high <= margin ? "same" : "unclear";
};

const shareOf = (values: readonly (boolean | number)[]) => ({
  count: values.filter((value) => value === true).length,
  of: values.length,
});

/** Returns `worse` if one measure is worse; otherwise the least certain verdict of the measures with enough hosts. */
const verdictOf = (results: readonly MeasureResult[]): ComparisonVerdict => {
  const has = (verdict: ComparisonVerdict) => results.some((result) => result.verdict === verdict);
  if (has("worse")) return "worse";
  if (results.every(({ verdict }) => verdict === "too_few")) return "too_few";
  if (has("unclear")) return "unclear";
  return has("better") ? "better" : "same";
};

/** A change: the hosts of a filter, and when it began. */
interface Change {
  filter: FleetFilter;
  since: Date;
}

/**
 * Creates the function that compares the hosts of a filter with others since a time, for upgrades and other changes without a rollout.
 * Concurrent calls with one change share a result. Throws 422 `no_history` for a time that is not past, or too long ago.
 */
export const createComparisons = (core: ViewCore) =>
  shareNextRun(
    async ({ filter, since }: Change): Promise<HostComparison> => {
      const ageMs = core.clock.now() - since.getTime();
      if (ageMs < 0) throw new Problem("no_history", { detail: "The time is not past" });
      if (ageMs > (keptHours - 1) * hourMs)
        throw new Problem("no_history", {
          detail: `The figures of hosts are kept for ${keptHours} hours`,
        });
      const rules = await readFleetRules(core);
      const hosts = await findFollowedHosts(
        core.db,
        hostsOfFilter(filter, rules),
        { from: since, until: since },
        rules,
      );
      // Hosts of one version or label are compared with those of another, so these are no keys.
      const matches = [
        ["platform", "version", "labels"],
        ["platform", "labels"],
        ["platform", "version"],
        ["platform"],
      ] as const;
      return compareFollowed(hosts, matches, rules.now);
    },
    (change) => JSON.stringify(change),
    core.viewsShared,
  );
