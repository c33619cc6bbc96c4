/**
 * `bun run floods -- [--seconds 10] [--only NAME]`: attacks the ingest listener of a real core, one attack after another, each on a new
 * core, beside a well-behaved client that commits a frame every 10 ms. Prints one JSON object with the peak RSS and CPU of core, the CPU of
 * the attacker (niced) and the p99 of the client, beside each attack and alone; exit code 1 when the RSS exceeds 350 MB, the p99 twice the one alone (and 50 ms), or core ends.
 */
import { parseArgs } from "node:util";
import { runFloods } from "./floods.ts";

const { values } = parseArgs({ options: { seconds: { type: "string", default: "10" }, only: { type: "string" } } });
const result = await runFloods({
  seconds: Math.min(Number(values.seconds), 60),
  ...(values.only === undefined ? {} : { names: [values.only] }),
});
process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
process.exit(result.ok ? 0 : 1);
