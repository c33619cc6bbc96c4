/**
 * `bun run upgrade-test -- [--from REV] [--states 3] [--seconds 5]`: carries a database, a queue, certificates and configs of each of the
 * last states of main whose schema differs (or of REV) to the present one, under load. Both cores serve on the new schema, and the previous
 * one restarts on it; then it stops, and the collector is upgraded with records in its queue. First it migrates an empty database of each
 * text that the baseline ever had. Prints one JSON object with the migrations that each database has from it; exit code 1 when an
 * acknowledged record was lost or stored twice, when a program of either revision did not serve, or when the schema is not that of a new
 * database.
 */
import { parseArgs } from "node:util";
import { carryEarlierBaselines } from "./earlier-baselines.ts";
import { checkOut, findPreviousStates, findRevision, type PreviousRevision } from "./previous.ts";
import { runUpgrade } from "./upgrade.ts";

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    from: { type: "string" },
    states: { type: "string", default: "3" },
    seconds: { type: "string", default: "5" },
  },
});
const progress = (line: string) => console.error(line);

const upgradeFrom = async (from: PreviousRevision) => {
  const { commit, version, subject } = from;
  progress(`\nfrom ${commit.slice(0, 12)} (${version}, ${subject}): installing its dependencies`);
  try {
    await using previous = await checkOut(commit);
    return { from, ...(await runUpgrade(previous, { seconds: Number(values.seconds), progress })) };
  } catch (error) {
    console.error(error);
    return { from, broken: [(error as Error).message], ok: false };
  }
};

const upgradeAll = async () => {
  const states =
    values.from === undefined ? await findPreviousStates(Number(values.states)) : [await findRevision(values.from)];
  progress("an empty database of each earlier text of the baseline is migrated");
  const baselines = await carryEarlierBaselines();
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
