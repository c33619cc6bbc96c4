import { readCommandOptions } from "#scripts/read-command-options.ts";
import { type Bench, rounded } from "../support/bench.ts";
import { checkGoals } from "./pair.ts";
import { measureNamed, pairNames, readPairNames } from "./pairs.ts";
import { peerGoals } from "./peer-goals.ts";
import { buildPeer, findGo, type PeerName, recipes } from "./programs.ts";

/**
 * Measures us beside other projects that do the same work: `--rounds` rounds, each side once in a round, with a load sender of ours, and the
 * CPU time of all processes that do the work. It builds the peers from public Go modules on first use and prints the medians of each
 * pair. Without Go it measures us beside the floors only, and is not ok: what has no peer to compare with is not judged. `--only`
 * selects pairs, `--seconds` is how long a side works in a round. The figure is the number of goals met.
 */
export const peersBench: Bench = async (args) => {
  const options = readCommandOptions({ only: pairNames.join(","), seconds: 6, rounds: 3 }, args);
  const { seconds, rounds } = options;
  const go = findGo();
  if (go === undefined)
    console.error("there is no Go on this machine: only the floors are measured");
  const { peers, versions } = createPeers(go);
  const compared: Record<string, unknown> = {};
  const goals: (ReturnType<typeof checkGoals>[number] & { pair: string })[] = [];
  for (const name of readPairNames(options.only)) {
    const { work, corpus, results } = await measureNamed(name, { seconds, rounds, peers });
    const sides = results.map(({ side, figures, oursDividedBy, spread, killed }) => ({
      ...side,
      figures: roundFigures(figures),
      ours_divided_by: roundFigures(oursDividedBy),
      spread: rounded(spread, 2),
      killed,
    }));
    console.error(JSON.stringify({ work, sides }, null, 2));
    compared[name] = { corpus, sides };
    goals.push(...checkGoals(peerGoals[name], results).map((goal) => ({ pair: name, ...goal })));
  }
  return {
    ...summarizeGoals(goals),
    details: { compared, goals, versions, go: go !== undefined, seconds, rounds },
  };
};

/** Returns what pairs get as `peers`, and the versions that they asked for. Without Go there is no peer. */
export const createPeers = (go: string | undefined, build: typeof buildPeer = buildPeer) => {
  const versions: Partial<Record<PeerName, string>> = {};
  const peers = async (name: PeerName): Promise<string | undefined> => {
    if (go === undefined) return undefined;
    versions[name] = recipes[name].version;
    return build(name, go);
  };
  return { peers, versions };
};

/** The figures of the bench: how many goals are met. One that was not judged is not met. */
export const summarizeGoals = (goals: readonly { met: boolean | "not judged" }[]) => {
  const met = goals.filter((goal) => goal.met === true).length;
  return {
    figure: met,
    unit: "goals met beside the peers",
    floor: goals.length,
    ratio: goals.length === 0 ? 0 : rounded(met / goals.length, 2),
    goal: goals.length,
    ok: goals.length > 0 && met === goals.length,
  };
};

const roundFigures = (figures: Readonly<Record<string, number>>) =>
  Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, Number(value.toPrecision(3))]),
  );
