/**
 * `bun run svc-fleet-sim -- --scenario smoke|fleet-100|fleet-1000 [--seed N] [--duration 1h] [--out FILE]`: a fleet played by a virtual
 * clock; `--drive URL` plays it against a live core (contract, section 14; docs/fleet-sim.md).
 */
import { runCommandLine } from "./command-line.ts";

// Whoever reads a part of it and goes, as `head` does, has what they want.
process.stdout.on("error", () => process.exit(1));
const args = process.argv.slice(2);
const stop = new AbortController();
// A simulation may end at once; a driven fleet says what came of it.
if (args.includes("--drive"))
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));
const { stdout, stderr } = process;
process.exitCode = await runCommandLine(args, { stdout, stderr, signal: stop.signal });
