/**
 * The child processes of a command.
 *
 * Invariants: `stopAll` leaves no child behind, and neither does a sudden end of this process as long as its exit handlers run; a
 * child that ends without `kill` or `stop` is reported as a failure.
 */

import { type ChildProcess, type ExecFileException, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../repository-files.ts";

/** A program that runs. */
export interface Running {
  readonly pid: number;
  /** SIGKILL; resolves once the process has exited. */
  kill(): Promise<void>;
  /** SIGTERM, then SIGKILL after ten seconds; resolves with the exit code, null after a signal. */
  stop(): Promise<number | null>;
}

/** A program to run: a TypeScript file of this repository and its arguments, or those of `executable`. */
export interface ProgramCommand {
  args: readonly string[];
  executable?: string;
  /** Beside PATH, HOME and TMPDIR, which a child inherits. */
  env?: Readonly<Record<string, string>>;
}

/** The result of a program that ran to its end. */
export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Starts programs and ends them. */
export interface Processes {
  /** Starts a program that logs to `<name>.log`. */
  start(program: ProgramCommand & { name: string }): Running;
  /** Runs a program to its end. */
  run(program: ProgramCommand): Promise<Finished>;
  /** Stops every program, the latest started first. */
  stopAll(): Promise<void>;
}

/** Sends a signal to a child process, unless it has ended; resolves once it has. */
export const endChild = async (
  child: ChildProcess | undefined,
  signal: NodeJS.Signals,
): Promise<void> => {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
};

const stopTimeoutMs = 10_000;
/** Creates processes with logs in `logDir`; calls `onFailure` for each program that exits unexpectedly. */
export const createProcesses = async (
  logDir: string,
  onFailure: (error: Error) => void,
): Promise<Processes> => {
  await mkdir(logDir, { recursive: true });
  const children = new Set<ChildProcess>();
  const running: Running[] = [];
  const killChildren = () => {
    for (const child of children) child.kill("SIGKILL");
  };
  process.once("exit", killChildren);
  const track = (child: ChildProcess): ChildProcess => {
    children.add(child);
    for (const end of ["exit", "error"]) child.once(end, () => children.delete(child));
    return child;
  };
  const optionsOf = ({ env }: ProgramCommand) => {
    const { PATH, HOME, TMPDIR } = process.env;
    // Ctrl-C goes to this process alone, which ends the others in their order.
    return { cwd: root, env: { PATH, HOME, TMPDIR, ...env }, detached: true };
  };

  const start: Processes["start"] = (program) => {
    const { name, executable = process.execPath, args } = program;
    const logFile = join(logDir, `${name}.log`);
    const log = openSync(logFile, "a", 0o600);
    const child = track(
      spawn(executable, [...args], { ...optionsOf(program), stdio: ["ignore", log, log] }),
    );
    closeSync(log);
    let expected = false;
    const exited = new Promise<void>((resolve) => {
      const onEnd = (how: string) => {
        const logTail = readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-5).join("\n");
        if (!expected) onFailure(new Error(`${name} exited unexpectedly (${how}): ${logTail}`));
        resolve();
      };
      child.once("exit", (code, signal) => onEnd(signal ?? `exit code ${code}`));
      child.once("error", (error) => onEnd(error.message));
    });
    const end = async (signal: "SIGKILL" | "SIGTERM"): Promise<void> => {
      expected = true;
      child.kill(signal);
      const timeout = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs);
      await exited;
      clearTimeout(timeout);
    };
    const entry: Running = {
      pid: child.pid ?? 0,
      kill: () => end("SIGKILL"),
      stop: () => end("SIGTERM").then(() => child.exitCode),
    };
    running.push(entry);
    return entry;
  };

  return {
    start,
    run: (program) =>
      new Promise((resolve, reject) => {
        const { executable = process.execPath, args } = program;
        const onEnd = (error: ExecFileException | null, stdout: string, stderr: string) => {
          if (typeof error?.code === "string") reject(error);
          else resolve({ code: error === null ? 0 : (error.code ?? null), stdout, stderr });
        };
        track(
          execFile(executable, [...args], { ...optionsOf(program), maxBuffer: 64 << 20 }, onEnd),
        );
      }),
    stopAll: async () => {
      for (const entry of running.reverse()) await entry.stop();
      killChildren();
    },
  };
};
