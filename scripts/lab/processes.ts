/**
 * The child processes of a demo.
 *
 * Invariants: every child is known from its start to its exit; `stopAll` leaves none behind, and neither does a sudden end of this
 * process as long as its exit handlers run; a child that ends without being told to is a failure, never silence.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";

/** A program that runs. */
export interface Running {
  readonly name: string;
  readonly pid: number;
  /** SIGKILL; resolves once the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM, then SIGKILL after ten seconds; resolves once the process is gone. */
  stop(): Promise<void>;
}

/** What to start. `name` is also the name of its log. */
export interface Program {
  name: string;
  /** A TypeScript file of this repository and its arguments. */
  args: readonly string[];
  env?: Readonly<Record<string, string>>;
}

/** What a program that ran to its end left. */
export interface Finished {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Starts programs under this process's own Node, and ends them. */
export interface Processes {
  start(program: Program): Running;
  /** Runs a program to its end. */
  run(program: Omit<Program, "name">): Promise<Finished>;
  /** Stops what runs, the latest started first. */
  stopAll(): Promise<void>;
}

const patienceMs = 10_000;
const root = new URL("../..", import.meta.url);

/** Makes the keeper of processes whose logs go to `logDir`. `onFailure` hears of each program that ended by itself. */
export const createProcesses = async (logDir: string, onFailure: (error: Error) => void): Promise<Processes> => {
  await mkdir(logDir, { recursive: true });
  const alive = new Set<ChildProcess>();
  const running: Running[] = [];
  process.once("exit", () => {
    for (const child of alive) child.kill("SIGKILL");
  });
  const logFile = (name: string): string => join(logDir, `${name}.log`);
  const logTail = (name: string): string =>
    readFileSync(logFile(name), "utf8").trimEnd().split("\n").slice(-5).join("\n");

  const launch = ({ args, env }: Omit<Program, "name">, output: "pipe" | number): ChildProcess => {
    const child = spawn(process.execPath, [...args], {
      cwd: root,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: process.env.TMPDIR, ...env },
      stdio: ["ignore", output, output],
      // Ctrl-C is for this process alone: it ends the others in their order.
      detached: true,
    });
    alive.add(child);
    child.once("exit", () => alive.delete(child));
    child.once("error", () => alive.delete(child));
    return child;
  };

  const start = (program: Program): Running => {
    const log = openSync(logFile(program.name), "a", 0o600);
    const child = launch(program, log);
    closeSync(log);
    let told = false;
    const exited = new Promise<void>((resolve) => {
      const end = (how: string) => {
        if (!told) onFailure(new Error(`${program.name} ended by itself (${how}): ${logTail(program.name)}`));
        resolve();
      };
      child.once("exit", (code, signal) => end(signal ?? `exit code ${code}`));
      child.once("error", (error) => end(error.message));
    });
    const end = async (signal: "SIGKILL" | "SIGTERM"): Promise<void> => {
      told = true;
      child.kill(signal);
      const impatience = setTimeout(() => child.kill("SIGKILL"), patienceMs);
      await exited;
      clearTimeout(impatience);
    };
    const entry = {
      name: program.name,
      pid: child.pid ?? 0,
      kill: () => end("SIGKILL"),
      stop: () => end("SIGTERM"),
    };
    running.push(entry);
    return entry;
  };

  return {
    start,
    run: (program) =>
      new Promise((resolve, reject) => {
        const child = launch(program, "pipe");
        const finished: Finished = { code: null, stdout: "", stderr: "" };
        for (const stream of ["stdout", "stderr"] as const)
          child[stream]?.setEncoding("utf8").on("data", (text: string) => {
            finished[stream] += text;
          });
        child.once("error", reject);
        child.once("close", (code) => resolve({ ...finished, code }));
      }),
    stopAll: async () => {
      for (const entry of running.reverse()) await entry.stop();
      for (const child of alive) child.kill("SIGKILL");
    },
  };
};
