import { median } from "../support/bench.ts";
import type { Goal } from "../support/goals.ts";

/**
 * Figures by name. The end of a name is its unit: `_us`, `_ms`, `_s`, `_mb`, `_percent` or `_per_second`. A name that starts with `cpu`
 * is CPU time for a unit of work, of the whole process tree.
 */
export type PeerFigures = Readonly<Record<string, number>>;

/** A warm-up takes this share of the work, so that the compilers of both sides have seen it. */
export const warmUpShare = 1 / 3;

/** One way to do the work of a pair. */
export interface Side {
  name: string;
  kind: "ours" | "peer" | "floor";
  /** Its promise about a kill -9, in at most 12 words. */
  guarantees: string;
  /** Does the work once and returns what it cost. */
  measure(): Promise<PeerFigures>;
  /** Does the work, kills the program with SIGKILL, starts it again where it keeps anything, and returns what was lost. */
  kill?(): Promise<PeerLosses>;
}

/** Units that a killed program had acknowledged, and those of them that never arrived. */
export interface PeerLosses {
  acknowledged: number;
  lost: number;
}

/** The bound of our figure, divided by a peer's where there is one. */
export interface PairGoal extends Goal {
  peer?: string;
  figure: string;
}

/** The same work done by us, by peers, and by a floor: the least that any program must do for it. */
export interface Pair {
  /** Names one unit of it. */
  work: string;
  sides: readonly Side[];
  /** What is sent. */
  corpus?: unknown;
}

/** The medians of a side. */
export interface SideResult {
  side: Pick<Side, "name" | "kind" | "guarantees">;
  figures: PeerFigures;
  /** The figures of each round. */
  rounds: readonly PeerFigures[];
  /** Medians of the quotients of our figures by this side's, round by round; empty for our side. */
  oursDividedBy: PeerFigures;
  /** Highest minus lowest of the quotients of CPU time, divided by their median. */
  spread: number;
  killed: PeerLosses | null;
}

/**
 * Measures the sides one after the other, `rounds` times: a neighbour that slows the machine slows all of them. Then kills each that can
 * be killed, once.
 */
export const measurePair = async (
  { sides }: Pick<Pair, "sides">,
  rounds: number,
): Promise<SideResult[]> => {
  const samples = sides.map((side) => ({ side, rounds: [] as PeerFigures[] }));
  for (let round = 0; round < rounds; round++)
    for (const { side, rounds: measured } of samples) measured.push(await side.measure());
  const killed = new Map<Side, PeerLosses>();
  for (const side of sides) if (side.kill !== undefined) killed.set(side, await side.kill());
  const ours = samples.find(({ side }) => side.kind === "ours")?.rounds ?? [];
  return samples.map(({ side, rounds: theirs }) => {
    const { name, kind, guarantees } = side;
    const quotients =
      kind === "ours" ? [] : theirs.map((figures, round) => divide(ours[round] ?? {}, figures));
    const cpu = quotients.flatMap(
      (quotient) => Object.entries(quotient).find(([name]) => isCpu(name))?.[1] ?? [],
    );
    return {
      side: { name, kind, guarantees },
      figures: medians(theirs),
      rounds: theirs,
      oursDividedBy: medians(quotients),
      spread: cpu.length === 0 ? 0 : (Math.max(...cpu) - Math.min(...cpu)) / median(cpu),
      killed: killed.get(side) ?? null,
    };
  });
};

/** Compares the results with each goal. A peer that was not measured is not judged. */
export const checkGoals = (goals: readonly PairGoal[], results: readonly SideResult[]) =>
  goals.map((goal) => {
    const ours = results.find(({ side }) => side.kind === "ours")?.figures;
    const compared = results.find(({ side }) => side.name === goal.peer)?.oursDividedBy;
    const measured = (goal.peer === undefined ? ours : compared)?.[goal.figure];
    const met = measured === undefined ? ("not judged" as const) : measured <= goal.value;
    return { ...goal, measured: measured ?? null, met };
  });

/** Reports whether a figure is CPU time for a unit of work. */
export const isCpu = (name: string): boolean => name.startsWith("cpu");

const divide = (ours: PeerFigures, theirs: PeerFigures): PeerFigures =>
  Object.fromEntries(
    Object.entries(ours).flatMap(([name, value]) => {
      const other = theirs[name];
      return other === undefined || other === 0 ? [] : [[name, value / other]];
    }),
  );

const medians = (samples: readonly PeerFigures[]): PeerFigures =>
  Object.fromEntries(
    Object.keys(samples[0] ?? {}).map((name) => [
      name,
      median(samples.map((sample) => sample[name] ?? Number.NaN)),
    ]),
  );
