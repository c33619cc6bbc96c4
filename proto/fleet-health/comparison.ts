/* Comparisons of changed hosts with similar unchanged ones (docs/judged-changes.md). */
import * as v from "valibot";
import { IsoTimestamp, TextOrNull } from "../values.ts";

/**
 * The measures by which hosts are compared: the share that sends no heartbeats any more, loses more records than before, starts more often, or
 * has a fuller queue; and how much more memory and CPU the collectors use.
 */
export const comparedMeasures = [
  "silent",
  "losing",
  "restarting",
  "queue_growing",
  "memory",
  "cpu",
] as const;

/** One of `comparedMeasures`. */
export type ComparedMeasure = (typeof comparedMeasures)[number];

/**
 * How changed hosts compare. `worse`, `better`: the whole interval is beyond the margin; `same`: the interval is within the margin; `unclear`: the
 * interval is too wide for any of these; `too_few`: fewer hosts than a verdict needs.
 */
const comparisonVerdicts = ["worse", "better", "same", "unclear", "too_few"] as const;

/** One of `comparisonVerdicts`. */
export type ComparisonVerdict = (typeof comparisonVerdicts)[number];

/** With fewer hosts in either group there is no verdict. */
export const comparedHostsMin = 20;

const matchKeys = ["platform", "version", "labels"] as const;

/** A fact that compared hosts have in common. */
export type MatchKey = (typeof matchKeys)[number];

/** The signals that hosts send; logs include the lines of files. */
export const comparedSignals = ["logs", "metrics", "traces"] as const;

/** One of `comparedSignals`. */
export type ComparedSignal = (typeof comparedSignals)[number];

/** The volume that core stored of a host in an hour, by signal. A host did not send an absent signal. */
export type SentVolume = Readonly<
  Partial<Record<ComparedSignal, { bytes: number; envelopes: number }>>
>;

const Difference = v.nullable(
  v.strictObject({ value: v.number(), low: v.number(), high: v.number() }),
);

/** A comparison. */
export const HostComparison = v.strictObject({
  at: IsoTimestamp,
  verdict: v.picklist(comparisonVerdicts),
  /** Hosts were compared with those that have these in common. */
  matched_by: v.array(v.picklist(matchKeys)),
  /** Hosts that were compared, and changed ones that have no counterpart. */
  changed: v.number(),
  control: v.number(),
  unmatched: v.number(),
  measures: v.array(
    v.strictObject({
      measure: v.picklist(comparedMeasures),
      verdict: v.picklist(comparisonVerdicts),
      changed: v.number(),
      control: v.number(),
      /**
       * Of shares: how much larger the share of the changed hosts is, 0.01 for one point. Of memory and CPU: by which part they grew more. Null
       * with too few hosts.
       */
      difference: Difference,
    }),
  ),
  /**
   * How much more the changed hosts send in an hour than before, by the bytes of the signals that any of them sent, as for memory. More or less
   * of it is neither worse nor better. Absent where no whole hour is known before and after.
   */
  volume: v.optional(
    v.array(
      v.strictObject({
        signal: v.picklist(comparedSignals),
        changed: v.number(),
        control: v.number(),
        difference: Difference,
        /** The same of its envelopes; absent in comparisons of an earlier core. */
        envelopes: v.optional(Difference),
      }),
    ),
  ),
});

/** A comparison. */
export type HostComparison = v.InferOutput<typeof HostComparison>;

/** Response of `GET /v1/collector/health/comparison`: the hosts of a filter since a time, against others. */
export const FleetComparison = v.strictObject({ ...HostComparison.entries, since: IsoTimestamp });

type MeasureResult = HostComparison["measures"][number];
type VolumeResult = NonNullable<HostComparison["volume"]>[number];

const words: Readonly<Record<ComparedMeasure, readonly [name: string, unit: "points" | "%"]>> = {
  silent: ["silent hosts", "points"],
  losing: ["hosts that lose more records", "points"],
  restarting: ["hosts that start more often", "points"],
  queue_growing: ["hosts with a fuller queue", "points"],
  memory: ["memory", "%"],
  cpu: ["CPU", "%"],
};

const signed = (part: number) => `${part > 0 ? "+" : ""}${Math.round(part * 1000) / 10}`;

/** Returns a result in words: `memory +23 % (18 to 28)`; of too few hosts by their numbers. */
export const describeMeasure = ({ measure, ...result }: MeasureResult): string =>
  describe(words[measure], result);

/** Returns how much more of a signal is sent, in words: `logs sent +23 % (18 to 28), in envelopes +5 % (2 to 8)`. */
export const describeVolume = ({ signal, envelopes, ...result }: VolumeResult): string => {
  const bytes = describe([`${signal} sent`, "%"], result);
  return envelopes
    ? `${bytes}, ${describe(["in envelopes", "%"], { ...result, difference: envelopes })}`
    : bytes;
};

const describe = (
  [name, unit]: readonly [name: string, unit: string],
  { difference, changed, control }: Omit<VolumeResult, "signal" | "envelopes">,
) =>
  difference === null
    ? `${name}: too few hosts, ${changed} and ${control}`
    : `${name} ${signed(difference.value)} ${unit} (${signed(difference.low)} to ${signed(difference.high)})`;

/** Returns the verdict in a sentence. */
export const describeComparison = ({
  verdict,
  changed,
  control,
  unmatched,
  measures,
}: HostComparison): string => {
  const groups = `${changed} changed hosts against ${control} similar unchanged ones`;
  const measuresOf = (wanted: MeasureResult["verdict"]) =>
    measures
      .filter((result) => result.verdict === wanted)
      .map(describeMeasure)
      .join(", ");
  switch (verdict) {
    case "worse":
      return `Worse: ${measuresOf("worse")}, ${groups}.`;
    case "better":
      return `Better: ${measuresOf("better")}, ${groups}.`;
    case "same":
      return `No difference that matters, ${groups}.`;
    case "unclear":
      return `No verdict: ${groups} are too few, or too different, to tell.`;
    case "too_few":
      if (changed + unmatched === 0)
        return "No verdict: core has no figures of the hosts, or they changed again.";
      if (changed + unmatched < comparedHostsMin)
        return `No verdict: ${changed + unmatched} changed hosts are too few, it takes ${comparedHostsMin}.`;
      return `No verdict: ${groups} are too few${unmatched === 0 ? "" : `, ${unmatched} have no counterpart`}.`;
  }
};

/* Upgrades and changes of labels outside of rollouts, and their comparisons (docs/judged-changes.md). */

const changeKinds = ["version", "label"] as const;

/** One of `changeKinds`. */
export type ChangeKind = (typeof changeKinds)[number];

/** A change of several hosts, outside of a rollout. */
export const FleetChange = v.strictObject({
  id: v.string(),
  kind: v.picklist(changeKinds),
  /** The key of the label; null for a version. */
  name: TextOrNull,
  /** Null for a label that the hosts did not have, or no longer have. */
  from: TextOrNull,
  to: TextOrNull,
  /** When the first host changed, and the last one. */
  began_at: IsoTimestamp,
  ended_at: IsoTimestamp,
  hosts: v.number(),
  /** When it has soaked; later if core is away meanwhile. */
  soak_until: IsoTimestamp,
  /** Its hosts against unchanged ones; null until it has soaked. */
  comparison: v.nullable(HostComparison),
});

/** A change. */
export type FleetChange = v.InferOutput<typeof FleetChange>;

/** Changes that core compares in a day, of each kind, of enough hosts for a verdict and of fewer. */
export const changesPerDay = 20;

/** Response of `GET /v1/collector/health/changes`. */
export const FleetChangeList = v.strictObject({
  items: v.array(FleetChange),
  next_cursor: TextOrNull,
  /** Changes of the last 24 hours that core does not compare, because others had reached `changesPerDay`. */
  refused: v.number(),
});

/** Response of `GET /v1/collector/health/changes`. */
export type FleetChangeList = v.InferOutput<typeof FleetChangeList>;

/** Returns a change in words: `version 1.4.0 to 1.5.0`, `label env none to prod`. */
export const describeChange = ({
  kind,
  name,
  from,
  to,
}: Pick<FleetChange, "kind" | "name" | "from" | "to">): string =>
  `${kind} ${name === null ? "" : `${name} `}${from ?? "none"} to ${to ?? "none"}`;

/** Returns how many changes core does not compare, and why. */
export const describeRefused = (refused: number): string =>
  `${refused} further changes of the last 24 h are not compared: the limit is ${changesPerDay} a day of each kind, those of most hosts first.`;
