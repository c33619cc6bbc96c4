import { availableParallelism } from "node:os";
import { type Bench, median, readBenchOptions, rounded } from "../support/bench.ts";
import { startMeter, startProcess } from "../support/processes.ts";
import { type FleetLab, openFleetLab } from "./lab.ts";
import { describeSamples, untilAll } from "./phases.ts";

const goal = 1.6;
/** With three cores a heartbeat may cost so much more than with one where the processors are the limit, not the cores. */
const costGrowthMax = 1.15;
/** Processors from which three cores, PostgreSQL and the sender do not wait for each other. */
const processorsMin = 8;
const replicas = 3;
/** Core accepts six heartbeats a minute of a host, and the warm-up is one of them. */
const roundsMax = 5;
const balancerProgram = new URL("./tcp-balancer.ts", import.meta.url).pathname;

/**
 * Measures heartbeats of one core against those of three on the same PostgreSQL, behind a TCP balancer: half of `--hosts` connect to each.
 * The halves take turns, `--in-flight` heartbeats at a time, for `--rounds` rounds each. The floor is the rate of one core. Where there are
 * fewer processors than the programs need, the goal is that a heartbeat costs no more with three cores.
 */
export const replicasBench: Bench = async (args) => {
  const options = readBenchOptions(args, { hosts: 4000, rounds: roundsMax, "in-flight": 256 });
  const { hosts, rounds, "in-flight": inFlight } = options;
  if (rounds > roundsMax)
    throw new Error(`core accepts at most ${roundsMax} rounds: use more hosts`);
  await using lab = await openFleetLab({
    hosts,
    cores: replicas,
    forwards: false,
    // No host sends by itself during the bench.
    intervalSeconds: 3600,
    hostsPerAddress: 50,
  });
  const [first = 0] = lab.ingestPorts();
  const TARGETS = JSON.stringify([[first], lab.ingestPorts()]);
  const balancer = await startProcess([balancerProgram], "ready", { ...process.env, TARGETS });
  try {
    await lab.workers.all("enroll", { apiPort: lab.apiPort(), token: lab.token, inFlight: 32 });
    await lab.database.sql`vacuum analyze`;
    await lab.workers.all("ports", balancer.records[0]?.ports as number[]);
    await lab.workers.all("start", { spreadMs: (hosts / 200) * 1000 });
    const { count } = await untilAll(lab, "connected", { hosts, secondsMax: hosts / 50 + 30 });
    if (count < hosts) throw new Error(`only ${count} of ${hosts} hosts are connected`);
    const sides = { one: 0, three: 1 } as const;
    const measured: Record<keyof typeof sides, Round[]> = { one: [], three: [] };
    for (let round = -1; round < rounds; round++)
      for (const side of ["one", "three"] as const) {
        const result = await measureRound(lab, { remainder: sides[side], inFlight });
        if (round >= 0) measured[side].push(result);
      }
    const one = summarize(measured.one);
    const three = summarize(measured.three);
    const ratio = rounded(three.per_second / one.per_second, 2);
    const costGrowth = rounded(
      (three.core_us + three.postgres_us) / (one.core_us + one.postgres_us),
      2,
    );
    const processors = availableParallelism();
    return {
      figure: three.per_second,
      unit: "heartbeats/s of three cores",
      floor: one.per_second,
      ratio,
      goal,
      ok: ratio >= goal || (processors < processorsMin && costGrowth <= costGrowthMax),
      details: {
        ...options,
        one,
        three,
        cost_growth: costGrowth,
        cost_growth_goal: costGrowthMax,
        processors,
        floor: "the same heartbeats through one core",
        limit:
          processors < processorsMin
            ? "processors: all programs share them"
            : "core, or PostgreSQL",
      },
    };
  } finally {
    await balancer.stop();
  }
};

const roundFigures = ["per_second", "core_us", "postgres_us", "sender_us", "p99_ms"] as const;

type Round = Record<(typeof roundFigures)[number], number>;

const measureRound = async (
  lab: FleetLab,
  { remainder, inFlight }: { remainder: number; inFlight: number },
): Promise<Round> => {
  await lab.workers.take();
  const meter = startMeter(lab.cpu);
  await lab.workers.all("round", { remainder, modulus: 2, inFlight });
  const used = meter();
  const { figures } = await lab.workers.take();
  const accepted = figures.took.heartbeat ?? new Float64Array();
  const failed = Object.entries(figures.failures);
  if (failed.length > 0)
    throw new Error(`heartbeats failed: ${JSON.stringify(Object.fromEntries(failed))}`);
  const microseconds = (seconds: number) => (seconds / accepted.length) * 1e6;
  return {
    per_second: accepted.length / used.seconds,
    core_us: microseconds(used.cpu.core),
    postgres_us: microseconds(used.cpu.postgres),
    sender_us: microseconds(used.cpu.sender),
    p99_ms: describeSamples(accepted).p99,
  };
};

const summarize = (results: readonly Round[]): Round =>
  Object.fromEntries(
    roundFigures.map((name) => [name, rounded(median(results.map((result) => result[name])))]),
  ) as Round;
