/**
 * `bun run svc-fleet-sim -- --scenario smoke|fleet-100|fleet-1000 [--seed N] [--duration 1h] [--out FILE]`: plays a fleet on a virtual
 * clock; `--drive URL` plays it against a live core. See [simulated fleets](../../docs/fleet-sim.md).
 */
import { runFleetSim } from "./run-fleet-sim.ts";

// A reader such as `head` may close stdout early.
process.stdout.on("error", () => process.exit(1));
const args = process.argv.slice(2);
const stop = new AbortController();
// A simulation may end at once; a stopped drive still reports what it did.
if (args.includes("--drive"))
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));
const { stdout, stderr } = process;
process.exitCode = await runFleetSim(args, { stdout, stderr, signal: stop.signal });
