import { readFile, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { systemClock } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import type { Side } from "../peers/pair.ts";
import { measureNamed, type PairName, readPairNames } from "../peers/pairs.ts";
import { type Bench, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import {
  type Committed,
  compareFigures,
  type Measured,
  type MeasuredRounds,
  measureUntilSteady,
  readCommitted,
} from "./ratchet-figures.ts";

const committedFile = new URL("./ratchet.json", import.meta.url);
/** The pairs whose figure is CPU time for a unit of work. */
const measuredPairs: readonly PairName[] = ["spans", "lines", "rows", "certificates", "heartbeats"];

/**
 * Measures the CPU time of a unit of each kind of work, divided by that of a floor in the same rounds, and compares the quotients with the
 * committed ones: fails when one is more than 15 % higher. `--update` commits the new figures instead; `--only` selects kinds of work.
 */
export const ratchetBench: Bench = async (args) => {
  const { only, update, seconds, rounds } = readCommandOptions(
    {
      only: measuredPairs.join(","),
      seconds: 2,
      rounds: 5,
      update: false,
    },
    args,
  );
  const committed = readCommitted(await readFile(committedFile, "utf8"));
  const measured: Record<string, Measured> = {};
  for (const name of readPairNames(only)) {
    const figure = await measureUntilSteady(
      () => measureRounds(name, { seconds, rounds }),
      (candidate) =>
        update || compareFigures(committed, { [name]: candidate }).every(({ ok }) => ok),
    );
    measured[name] = figure;
    console.error(`${name}: ${JSON.stringify(figure)}`);
  }
  if (update) {
    const machine = `${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores, Node ${process.version}`;
    const date = new Date(systemClock.now()).toISOString().slice(0, 10);
    const figures = mapValues(measured, (figure) => ({ ...figure, date, machine }));
    const next: Committed = { ...committed, ...figures };
    await writeFile(committedFile, `${JSON.stringify(next, null, 2)}\n`);
  }
  const results = compareFigures(update ? {} : committed, measured);
  const worst = Math.max(0, ...results.map(({ change }) => change));
  const { ok, goal } = judgeGoals("ratchet", { rise: worst });
  return {
    figure: rounded(worst, 3),
    unit: "largest rise of CPU time for a unit, divided by the floor's (less is better)",
    floor: 0,
    ratio: rounded(worst, 3),
    goal,
    ok: update || (ok && results.every((result) => result.ok)),
    details: { results: update ? measured : results, updated: update, seconds, rounds },
  };
};

/** Measures our side and the floor of a pair, and no peers. */
const measureRounds = async (
  name: PairName,
  { seconds, rounds }: { seconds: number; rounds: number },
): Promise<MeasuredRounds> => {
  const { results } = await measureNamed(name, { seconds, rounds });
  const roundsOf = (kind: Side["kind"]) =>
    results.find(({ side }) => side.kind === kind)?.rounds ?? [];
  return { ours: roundsOf("ours"), floor: roundsOf("floor") };
};
