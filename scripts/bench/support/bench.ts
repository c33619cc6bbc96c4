import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { quantile } from "#scripts/lab/quantile.ts";

/** The result of a bench. `ok`: it met all its goals. `ratio`: the figure divided by the floor of the same run. */
export interface BenchFigures {
  figure: number;
  unit: string;
  floor: number;
  ratio: number;
  goal: number;
  ok: boolean;
  /** Each figure with its goal, by name. */
  goals?: Readonly<Record<string, object>>;
  details: Readonly<Record<string, unknown>>;
}

/** Measures with the arguments after the bench's name, and cleans up. */
export type Bench = (args: readonly string[]) => Promise<BenchFigures>;

/** Rounds to this many decimal places. */
export const rounded = (value: number, digits = 0): number =>
  Math.round(value * 10 ** digits) / 10 ** digits;

/** Returns the middle sample. */
export const median = (samples: readonly number[]): number =>
  quantile(Float64Array.from(samples), 0.5);

/** Runs `count` calls, `inFlight` at a time; returns the milliseconds of each. */
export const runAll = async (
  count: number,
  inFlight: number,
  run: (index: number) => Promise<void>,
): Promise<Float64Array> => {
  const latencies = new Float64Array(count);
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < count; index = next++) {
      const startedAt = performance.now();
      await run(index);
      latencies[index] = performance.now() - startedAt;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  return latencies;
};

/** Runs `count` calls, one at a time on each of `connections`; returns the milliseconds of each. */
export const runOnEach = <Connection>(
  connections: readonly Connection[],
  count: number,
  run: (connection: Connection, index: number) => Promise<void>,
): Promise<Float64Array> => {
  const free = [...connections];
  return runAll(count, connections.length, async (index) => {
    const connection = free.pop();
    if (connection === undefined) throw new Error("no connection is free");
    await run(connection, index);
    free.push(connection);
  });
};

/** Starts `count` calls at `perSecond`, however long each takes; returns the milliseconds of each, from the time that it was due. */
export const runAtRate = async (
  count: number,
  perSecond: number,
  run: (index: number) => Promise<void>,
): Promise<Float64Array> => {
  const latencies = new Float64Array(count);
  const running: Promise<void>[] = [];
  const failures: unknown[] = [];
  const startedAt = performance.now();
  const runDue = async (index: number) => {
    await run(index);
    latencies[index] = performance.now() - startedAt - (index * 1000) / perSecond;
  };
  while (running.length < count && failures.length === 0) {
    const due = Math.min(
      count,
      1 + Math.floor(((performance.now() - startedAt) / 1000) * perSecond),
    );
    while (running.length < due)
      running.push(runDue(running.length).catch((error: unknown) => void failures.push(error)));
    await sleep(1);
  }
  await Promise.all(running);
  if (failures.length > 0) throw failures[0];
  return latencies;
};

/** Collects all garbage, so that what was prepared does not count in what is measured next. */
export const collectGarbage = (): void => {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
};
