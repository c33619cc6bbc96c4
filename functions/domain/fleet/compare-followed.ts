import type { FollowedHost, HostFigures } from "#functions/store/fleet/host-hours.ts";
import { hourMs } from "#kit/clock.ts";
import { differenceOfMeans, differenceOfShares, type EstimatedDifference } from "#kit/intervals.ts";
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

/** Whether the hosts that a change reached differ since from similar ones that it did not reach: by their figures alone. */

/** A host's figures over a period. Null: it reported none, or two processes did, which do not know of each other. */
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
  /** Null where it is not known. */
  before: HostWindow | null;
  after: HostWindow | null;
  /** Null without a whole hour before the change and after it. */
  sent: { before: SentVolume; after: SentVolume } | null;
}

/** The result of a comparison. */
type GroupComparison = Omit<HostComparison, "at" | "matched_by">;
type MeasureResult = GroupComparison["measures"][number];

/** Controls for each changed host. */
const controlsMax = 4;
/** The share of comparisons without any effect that may end with a verdict of one. All measures share it. */
const errorMax = 0.05;

interface Measure {
  /** A difference within it is none that matters. */
  margin: number;
  /** Whether it is true of a host, or a number whose mean is compared; null for a host without it. */
  of(host: ComparedHost): boolean | number | null;
}

const rose = (figure: (window: HostWindow) => number) => ({
  of: ({ before, after }: ComparedHost) =>
    before && after ? figure(after) > figure(before) : null,
});
/** Relative growth, so that large and small hosts count alike. */
const growth = (figure: (window: HostWindow) => number | null) => ({
  of: ({ before, after }: ComparedHost) => {
    const from = before && figure(before);
    const to = after && figure(after);
    return from !== null && to !== null && from > 0 && to > 0 ? Math.log(to / from) : null;
  },
});

const measures: Readonly<Record<ComparedMeasure, Measure>> = {
  silent: { margin: 0.01, of: ({ isSilent }) => isSilent },
  losing: { margin: 0.01, ...rose(({ lostPerHour }) => lostPerHour) },
  restarting: { margin: 0.01, ...rose(({ startsPerHour }) => startsPerHour) },
  queue_growing: { margin: 0.1, ...rose(({ queueBytes }) => queueBytes) },
  memory: { margin: Math.log(1.1), ...growth(({ rssBytes }) => rssBytes) },
  cpu: { margin: Math.log(1.1), ...growth(({ cpuShare }) => cpuShare) },
};

/**
 * Compares how the changed hosts differ from before with how the others do (difference in differences), so that what happened to all, and what
 * distinguished them before, does not count. Both groups come in an order by lot: of each stratum the first ones are taken, equally many controls
 * for each changed host.
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

/** So little an hour counts as nothing: otherwise a host that begins or ceases to send would have no growth. */
const sentMin = { bytes: 1024, envelopes: 1 };

const compareVolume = (changed: readonly ComparedHost[], others: readonly ComparedHost[]) => {
  if (changed.every(({ sent }) => sent === null)) return {};
  const sending = (hosts: readonly ComparedHost[], signal: ComparedSignal) =>
    hosts.filter(({ sent }) => sent?.before[signal] ?? sent?.after[signal]);
  const volume = comparedSignals.flatMap((signal) => {
    const ofChanged = sending(changed, signal);
    const ofOthers = sending(others, signal);
    if (ofChanged.length === 0) return [];
    const isEnough = Math.min(ofChanged.length, ofOthers.length) >= comparedHostsMin;
    const differenceOf = (figure: keyof typeof sentMin) => {
      const growthOf = ({ sent }: ComparedHost) => {
        const before = sent?.before[signal]?.[figure] ?? 0;
        const after = sent?.after[signal]?.[figure] ?? 0;
        return Math.log((after + sentMin[figure]) / (before + sentMin[figure]));
      };
      const confidence = 1 - errorMax / (2 * comparedSignals.length);
      return isEnough
        ? relative(differenceOfMeans(ofChanged.map(growthOf), ofOthers.map(growthOf), confidence))
        : null;
    };
    const counts = { signal, changed: ofChanged.length, control: ofOthers.length };
    return [{ ...counts, difference: differenceOf("bytes"), envelopes: differenceOf("envelopes") }];
  });
  return { volume };
};

/** Converts a difference of logarithms to a relative one. */
const relative = ({ value, low, high }: EstimatedDifference): EstimatedDifference => ({
  value: Math.expm1(value),
  low: Math.expm1(low),
  high: Math.expm1(high),
});

/** Every stratum has the same share of both groups. */
const matchGroups = (changed: readonly ComparedHost[], others: readonly ComparedHost[]) => {
  const strata = [...Map.groupBy(changed, ({ stratum }) => stratum)];
  const othersOf = Map.groupBy(others, ({ stratum }) => stratum);
  const match = (ratio: number) =>
    strata.map(([stratum, hosts]) => {
      const found = othersOf.get(stratum) ?? [];
      const count = Math.min(hosts.length, Math.floor(found.length / ratio));
      return { matched: hosts.slice(0, count), control: found.slice(0, count * ratio) };
    });
  const size = (pairs: ReturnType<typeof match>) =>
    pairs.reduce((sum, { matched }) => sum + matched.length, 0);
  const single = match(1);
  let best = single;
  for (let ratio = 2; ratio <= controlsMax; ratio++) {
    const more = match(ratio);
    // More controls are worth no changed host.
    if (size(more) === size(single)) best = more;
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
  const { margin, of } = measures[measure];
  const valuesOf = (hosts: readonly ComparedHost[]) => hosts.flatMap((host) => of(host) ?? []);
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
  const { low, high } = difference;
  const verdict =
    low > margin
      ? "worse"
      : high < -margin
        ? "better"
        : low >= -margin && high <= margin
          ? "same"
          : "unclear";
  const shown = isShare ? difference : relative(difference);
  return { ...counts, verdict, difference: shown };
};

const shareOf = (values: readonly (boolean | number)[]) => ({
  count: values.filter((value) => value === true).length,
  of: values.length,
});

/** One measure that is worse decides; else what the hosts were enough for. */
const verdictOf = (results: readonly MeasureResult[]): ComparisonVerdict => {
  const has = (verdict: ComparisonVerdict) => results.some((result) => result.verdict === verdict);
  if (has("worse")) return "worse";
  if (results.every(({ verdict }) => verdict === "too_few")) return "too_few";
  return has("unclear") ? "unclear" : has("better") ? "better" : "same";
};
