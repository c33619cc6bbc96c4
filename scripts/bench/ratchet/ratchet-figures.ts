import * as v from "valibot";
import { isCpu, type PeerFigures } from "../peers/pair.ts";
import { rounded } from "../support/bench.ts";
import { benchGoals } from "../support/goals.ts";

const measured = v.strictObject({
  /** `cpu_ms` or `cpu_us`. */
  unit: v.string(),
  /** `ours` divided by `floor`. */
  quotient: v.pipe(v.number(), v.gtValue(0)),
  /** Lowest CPU time of the rounds: neighbours on a machine only add to it. */
  ours: v.number(),
  floor: v.number(),
  /** By how much the second-lowest quotient differs: what remains of the noise. */
  spread: v.number(),
});
const committed = v.record(
  v.string(),
  v.strictObject({
    ...measured.entries,
    date: v.pipe(v.string(), v.isoDate()),
    machine: v.string(),
  }),
);

/** CPU time for a unit of work beside that of a floor. */
export type Measured = v.InferOutput<typeof measured>;
/** The figures of `ratchet.json`, by kind of work. */
export type Committed = v.InferOutput<typeof committed>;

/** Parses `ratchet.json`; throws when it is not valid. */
export const readCommitted = (text: string): Committed => v.parse(committed, JSON.parse(text));

/** The figures of our side and of the floor, round by round. */
export interface MeasuredRounds {
  ours: readonly PeerFigures[];
  floor: readonly PeerFigures[];
}

/** Measures, and once more if that is not accepted: the lowest of all rounds count, because a busy machine only adds to them. */
export const measureUntilSteady = async (
  measure: () => Promise<MeasuredRounds>,
  accept: (figure: Measured) => boolean,
): Promise<Measured> => {
  const first = await measure();
  const figure = quotientOf(first);
  if (accept(figure)) return figure;
  const second = await measure();
  return quotientOf({
    ours: [...first.ours, ...second.ours],
    floor: [...first.floor, ...second.floor],
  });
};

/** Divides our lowest CPU time by the floor's. */
export const quotientOf = ({ ours, floor }: MeasuredRounds): Measured => {
  const unit = Object.keys(ours[0] ?? {}).find(isCpu) ?? "";
  const sorted = (rounds: readonly PeerFigures[]) =>
    rounds.map((round) => round[unit] ?? Number.NaN).toSorted((a, b) => a - b);
  const [lowest = Number.NaN, second = lowest] = sorted(ours);
  const [floorLowest = Number.NaN, floorSecond = floorLowest] = sorted(floor);
  const quotient = lowest / floorLowest;
  return {
    unit,
    quotient: rounded(quotient, 3),
    ours: rounded(lowest, 3),
    floor: rounded(floorLowest, 3),
    spread: rounded(Math.abs(second / floorSecond / quotient - 1), 3),
  };
};

/** Compares each measured quotient with the committed one. Work without a committed figure passes with a change of 0 and `committed` null. */
export const compareFigures = (before: Committed, now: Readonly<Record<string, Measured>>) =>
  Object.entries(now).map(([name, figure]) => {
    const known = before[name];
    const change = known === undefined ? 0 : figure.quotient / known.quotient - 1;
    // Unknown units cannot be compared.
    const comparable = known === undefined || known.unit === figure.unit;
    return {
      name,
      ...figure,
      committed: known?.quotient ?? null,
      change,
      ok: comparable && change <= benchGoals.ratchet.rise.value,
    };
  });
