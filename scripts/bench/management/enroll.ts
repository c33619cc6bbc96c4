import { readCommandOptions } from "#scripts/read-command-options.ts";
import type { Side } from "../peers/pair.ts";
import { measureNamed } from "../peers/pairs.ts";
import { type Bench, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";

/**
 * Measures the CPU time of a certificate for a one-time token by the pair `certificates`, without a peer: core as a process of its own behind a
 * TLS edge, in a durable PostgreSQL. New hosts enroll under one policy, whose lock all take, for some `--seconds` after a third of that to warm
 * up. The floor is the CPU time of checking the same requests and signing their certificates, without HTTP or database.
 */
export const enrollBench: Bench = async (args) => {
  const { seconds } = readCommandOptions({ seconds: 8 }, args);
  const { results } = await measureNamed("certificates", { seconds, rounds: 1 });
  const figureOf = (kind: Side["kind"], name: string) =>
    results.find(({ side }) => side.kind === kind)?.figures[name] ?? Number.NaN;
  const cpuUs = figureOf("ours", "cpu_core_us") + figureOf("ours", "cpu_postgres_us");
  const floor = figureOf("floor", "cpu_us");
  return {
    figure: rounded(cpuUs),
    unit: "us of CPU a certificate, core and PostgreSQL (less is better)",
    floor: rounded(floor),
    ratio: rounded(cpuUs / floor, 1),
    ...judgeGoals("enroll", { cpu_us: cpuUs, p99_ms: figureOf("ours", "p99_ms") }),
    details: { seconds, results },
  };
};
