import { cpus, totalmem } from "node:os";

/** What a bench found. `ok` says whether `ratio`, the figure over the floor of the same run, reaches `goal`. */
export interface BenchResult {
  name: string;
  figure: number;
  unit: string;
  floor: number;
  ratio: number;
  goal: number;
  ok: boolean;
  details: Readonly<Record<string, unknown>>;
  machine: Machine;
}

/** Where it was measured. */
export interface Machine {
  cpu: string;
  cores: number;
  memoryMb: number;
  node: string;
}

/** A bench: gets the arguments after its name, and cleans up after itself. */
export type Bench = (args: readonly string[]) => Promise<Omit<BenchResult, "machine">>;

/** This machine. */
export const describeMachine = (): Machine => ({
  cpu: cpus()[0]?.model ?? "unknown",
  cores: cpus().length,
  memoryMb: Math.round(totalmem() / 1024 / 1024),
  node: process.version,
});

/** Figure, floor and verdict; more per second is better. Rounded to what the measurement can tell. */
export const rated = (
  name: string,
  unit: string,
  { figure, floor, goal }: { figure: number; floor: number; goal: number },
) => {
  const ratio = Math.round((figure / floor) * 1000) / 1000;
  return { name, figure: Math.round(figure), unit, floor: Math.round(floor), ratio, goal, ok: ratio >= goal };
};

/** The value below which `fraction` of the samples lie. Sorts `samples`. */
export const quantile = (samples: Float64Array, fraction: number): number => {
  samples.sort();
  return samples[Math.min(samples.length - 1, Math.floor(samples.length * fraction))] ?? Number.NaN;
};
