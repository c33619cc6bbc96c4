import { rm, stat, writeFile } from "node:fs/promises";
import { CommandFailure, exitCode } from "#collector/commands/command.ts";
import { writeDurably } from "#collector/files/private-files.ts";
import { systemEntropy } from "#kit/entropy.ts";
import packageJson from "#package.json" with { type: "json" };
import { readOptions, type SimOptions, usage } from "./options.ts";
import { scenarios } from "./scenario/scenarios.ts";

/** Where a command line writes, and the signal that stops it. */
export interface CommandContext {
  stdout: { write(text: string): unknown };
  stderr: { write(text: string): unknown };
  signal: AbortSignal;
}

/** Runs a command line and returns its exit code: 0 done, 1 failed, 2 usage. */
export const runFleetSim = async (
  args: readonly string[],
  { stdout, stderr, signal }: CommandContext,
): Promise<number> => {
  if (args.includes("--help") || args.includes("--version")) {
    stdout.write(args.includes("--help") ? usage : `${packageJson.version}\n`);
    return exitCode.done;
  }
  const isJson = args.includes("--json");
  const progress = (line: string) => void (isJson || stderr.write(`svc-fleet-sim: ${line}\n`));
  try {
    const options = readOptions(args);
    const { out } = options;
    // Before hours of work whose result could not be stored.
    if (out !== undefined) await checkWritable(out);
    const print = async (text: string) =>
      void (out === undefined ? stdout.write(text) : await writeAtomically(out, text));
    if (options.drive === undefined) {
      await print(await simulationText(options));
      return exitCode.done;
    }
    const { runDrive } = await import("./run-drive.ts");
    const { report, keep } = await runDrive(options, { signal, progress });
    await print(`${JSON.stringify(report)}\n`);
    if (report.stopped !== null) progress(report.stopped);
    else if (options.keep) {
      progress("keeps the fleet alive until it is stopped");
      await keep(signal);
    }
    return report.ok ? exitCode.done : exitCode.failed;
  } catch (error) {
    const failure = error instanceof CommandFailure ? error : undefined;
    const { code = "internal", exitCode: exit = exitCode.failed } = failure ?? {};
    const message = error instanceof Error ? error.message : "unknown failure";
    if (isJson) stdout.write(`${JSON.stringify({ ok: false, error: { code, message } })}\n`);
    else stderr.write(`svc-fleet-sim: ${message}\n`);
    if (!isJson && exit === exitCode.usage)
      stderr.write("  svc-fleet-sim --help lists its flags\n");
    return exit;
  }
};

const simulationText = async (
  options: Pick<SimOptions, "scenario" | "seed"> & { duration: number },
): Promise<string> => {
  // Loaded on use: help and usage failures need no database.
  const { predictHealth, withModelDatabase } = await import("./model/predict-health.ts");
  const { simulationPlan } = await import("./scenario/plan.ts");
  const { printSimulation, simulate } = await import("./simulate.ts");
  const { scenario, seed, duration: durationSeconds } = options;
  const plan = await simulationPlan({
    scenario,
    seed,
    durationSeconds,
    hosts: scenarios[scenario].hosts,
  });
  const simulation = await withModelDatabase((database) =>
    simulate(plan, (histories) =>
      predictHealth(database, { plan, histories, pagesAt: [plan.endsAt] }),
    ),
  );
  return printSimulation(simulation);
};

/** Throws `CommandFailure` if `path` cannot be written now. What is there does not change. */
const checkWritable = (path: string): Promise<void> =>
  orUnwritable(async () => {
    const temporary = `${path}.${systemEntropy.bytes(6).toHex()}.tmp`;
    await writeFile(temporary, "", { flag: "wx" });
    await rm(temporary);
    if ((await stat(path).catch(() => undefined))?.isDirectory())
      throw new Error("a directory is there");
  });

/** Writes a file so that a reader gets the old text or all of the new, also after a crash. Throws `CommandFailure`. */
const writeAtomically = (path: string, text: string): Promise<void> =>
  orUnwritable(() => writeDurably(path, text, { entropy: systemEntropy }, 0o644));

const orUnwritable = (work: () => Promise<void>): Promise<void> =>
  work().catch((cause: unknown) => {
    const message = "the file of --out cannot be written";
    throw new CommandFailure(exitCode.failed, "file_unwritable", message, { cause });
  });
