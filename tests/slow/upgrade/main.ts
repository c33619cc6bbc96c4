/**
 * `bun run upgrade-test -- [--from REV] [--states 3] [--seconds 5] [--only upgrade|rolling]`: carries a database, a queue, certificates and
 * configs of each of the last states of main whose schema differs (or of REV) to the present one, under load.
 *
 * - upgrade: both cores serve on the new schema, and the previous one restarts on it; then it stops, and the collector is upgraded with
 *   records in its queue.
 * - rolling: two cores behind a balancer are replaced one after the other, forwards and back; in the end the previous ones serve alone on the
 *   new schema. Nothing may be refused for longer than two seconds.
 *
 * First it migrates an empty database of each text that the baseline ever had. Prints one JSON object with what each database has from
 * it; exit code 1 when an acknowledged record was lost or stored twice, when a program of either revision did not serve, when a caller was
 * refused for too long, or when the schema is not that of a new database.
 */
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { carryEarlierBaselines } from "./earlier-baselines.ts";
import { checkOut, findPreviousStates, findRevision, type PreviousRevision } from "./previous.ts";
import { runRolling } from "./rolling.ts";
import { runUpgrade } from "./upgrade.ts";

const values = readCommandOptions({ from: null, states: 3, seconds: 5, only: null });
if (values.only !== undefined && values.only !== "upgrade" && values.only !== "rolling")
  throw new Error("--only is upgrade or rolling");
const progress = (line: string) => console.error(line);

const upgradeFrom = async (from: PreviousRevision) => {
  const { commit, version, subject } = from;
  progress(`\nfrom ${commit.slice(0, 12)} (${version}, ${subject}): installing its dependencies`);
  try {
    await using previous = await checkOut(commit);
    const options = { seconds: values.seconds, progress };
    const upgrade = values.only === "rolling" ? undefined : await runUpgrade(previous, options);
    const rolling = values.only === "upgrade" ? undefined : await runRolling(previous, options);
    return {
      from,
      upgrade,
      rolling,
      broken: [...(upgrade?.broken ?? []), ...(rolling?.broken ?? [])],
    };
  } catch (error) {
    console.error(error);
    return { from, broken: [(error as Error).message] };
  }
};

const upgradeAll = async () => {
  const states =
    values.from === undefined
      ? await findPreviousStates(values.states)
      : [await findRevision(values.from)];
  const isRollingAlone = values.only === "rolling";
  if (!isRollingAlone)
    progress("an empty database of each earlier text of the baseline is migrated");
  const baselines = isRollingAlone ? { equal: 0, faults: [] } : await carryEarlierBaselines();
  const upgrades = [];
  for (const state of states) upgrades.push(await upgradeFrom(state));
  const broken = [
    ...baselines.faults,
    ...upgrades.flatMap(({ from, broken: faults }) =>
      faults.map((fault) => `from ${from.commit.slice(0, 12)}: ${fault}`),
    ),
  ];
  return { baselines: baselines.equal, upgrades, broken, ok: broken.length === 0 };
};

const result = await upgradeAll().catch((error: Error) => ({ broken: [error.message], ok: false }));
for (const fault of result.broken) console.error(`BROKEN  ${fault}`);
console.log(JSON.stringify(result));
// A timeout of the load is still pending.
process.exit(result.ok ? 0 : 1);
