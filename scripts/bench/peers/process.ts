import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A program of another project that runs. */
export interface RunningProgram extends AsyncDisposable {
  pid: number;
  /** Sends a signal, SIGTERM unless given; resolves once the program has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/** Starts a program; resolves when a line of its output matches `ready`, and rejects with its output if it ends before. */
export const startProgram = async (
  [file, ...args]: readonly [string, ...string[]],
  ready: RegExp,
  env: NodeJS.ProcessEnv = process.env,
): Promise<RunningProgram> => {
  const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit").catch(() => undefined);
  const lines: string[] = [];
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream).on("line", (line) => {
        if (lines.push(line) > 50) lines.shift();
        if (ready.test(line)) resolve();
      });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`${file} ended with ${code}:\n${lines.join("\n")}`)));
  });
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    await ended;
  };
  return { pid: child.pid ?? 0, stop, [Symbol.asyncDispose]: () => stop() };
};
