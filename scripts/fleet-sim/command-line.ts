import { CommandFailure, exitCode } from "../../collector/commands/command-failure.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import packageJson from "../../package.json" with { type: "json" };
import { type DriveRequest, type Options, readOptions, usage } from "./options.ts";
import { scenarios } from "./scenario/scenarios.ts";
import { checkWritable, writeWhole } from "./write-whole.ts";

/** Where a command line writes, and what ends it early. */
export interface Surroundings {
  stdout: { write(text: string): unknown };
  stderr: { write(text: string): unknown };
  signal: AbortSignal;
}

/** Runs one command line and gives its exit code: 0 done, 1 failed, 2 usage. */
export const runCommandLine = async (
  args: readonly string[],
  { stdout, stderr, signal }: Surroundings,
): Promise<number> => {
  if (args.includes("--help") || args.includes("--version")) {
    stdout.write(args.includes("--help") ? usage : `${packageJson.version}\n`);
    return exitCode.done;
  }
  const progress = (line: string) => {
    if (!args.includes("--json")) stderr.write(`svc-fleet-sim: ${line}\n`);
  };
  try {
    const options = readOptions(args);
    const print = async (text: string) => {
      if (options.out === undefined) stdout.write(text);
      else await writeWhole(options.out, text, systemEntropy);
    };
    // Before hours of work whose result could not be kept.
    if (options.out !== undefined) await checkWritable(options.out, systemEntropy);
    if (options.drive !== undefined) return await drive(options, options.drive, { signal, print, progress });
    await print(await simulationText(options));
    return exitCode.done;
  } catch (error) {
    const { code, message, exitCode: exit } = failureOf(error);
    if (args.includes("--json")) stdout.write(`${JSON.stringify({ ok: false, error: { code, message } })}\n`);
    else {
      stderr.write(`svc-fleet-sim: ${message}\n`);
      if (exit === exitCode.usage) stderr.write("  svc-fleet-sim --help lists its flags\n");
    }
    return exit;
  }
};

const simulationText = async ({ scenario, seed, durationSeconds }: Options): Promise<string> => {
  // Loaded on use: help and refusals need no database.
  const { predictHealth, withModelDatabase } = await import("./model/predict-health.ts");
  const { simulationPlan } = await import("./scenario/plan.ts");
  const { printSimulation, simulate } = await import("./simulate.ts");
  const plan = await simulationPlan({ scenario, seed, durationSeconds, hosts: scenarios[scenario].hosts });
  const simulation = await withModelDatabase((database) =>
    simulate(plan, (told) => predictHealth(database, { plan, told, pagesAt: [plan.endsAt] })),
  );
  return printSimulation(simulation);
};

/** Plays the fleet, prints the report, and keeps the fleet alive if that was asked for. */
const drive = async (
  options: Options,
  request: DriveRequest,
  means: { signal: AbortSignal; print(text: string): Promise<void>; progress(line: string): void },
): Promise<number> => {
  const { runDrive } = await import("./run-drive.ts");
  const { report, keep } = await runDrive(options, request, means);
  await means.print(`${JSON.stringify(report)}\n`);
  if (report.stopped !== null) means.progress(report.stopped);
  else if (request.keep) {
    means.progress("the fleet lives on until it is stopped");
    await keep(means.signal);
  }
  return report.ok ? exitCode.done : exitCode.failed;
};

const failureOf = (error: unknown): CommandFailure =>
  error instanceof CommandFailure
    ? error
    : new CommandFailure(exitCode.failed, "internal", error instanceof Error ? error.message : "unknown failure");
