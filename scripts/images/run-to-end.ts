import { type ExecFileException, execFile } from "node:child_process";

/** A program that ended with another code than 0, or did not start. */
export class CommandError extends Error {}

/** Options of `runToEnd`. */
export interface CommandOptions {
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** Runs a program to its end and returns its stdout. Throws `CommandError` with the end of its output unless it exits with 0. */
export const runToEnd = (
  command: string,
  args: readonly string[],
  { env = process.env, cwd, timeoutMs = 600_000, signal }: CommandOptions = {},
): Promise<string> =>
  new Promise((resolve, reject) => {
    const options = {
      env,
      timeout: timeoutMs,
      maxBuffer: 64 << 20,
      ...(cwd && { cwd }),
      ...(signal && { signal }),
    };
    execFile(
      command,
      [...args],
      options,
      (error: ExecFileException | null, stdout: string, stderr: string) => {
        if (error === null) return resolve(stdout);
        const tail = `${stdout}\n${stderr}`.trim().split("\n").slice(-12).join("\n");
        const how = error.killed ? `ended after ${timeoutMs / 1000} s` : `exit code ${error.code}`;
        reject(new CommandError(`${command} ${args.slice(0, 3).join(" ")} (${how}): ${tail}`));
      },
    );
  });
