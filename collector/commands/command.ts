import type { CollectorEnv } from "../env.ts";
import type { FlagSpec, FlagValues } from "./flags.ts";

/** Exit codes of every command (contract §8). */
export const exitCode = { done: 0, failed: 1, usage: 2, configInvalid: 78 } as const;
export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** How a command ended well enough to say so: lines for people on stderr, one object for programs (`--json`) on stdout. */
export interface Outcome {
  exitCode: ExitCode;
  lines: readonly string[];
  json: object;
  /** What the command is for, for people: on stdout instead of the lines. */
  text?: string;
  /** The object is what the command is for, and is printed without `--json` too. */
  jsonAlways?: boolean;
}

/** One command of `svc-collector`. */
export interface Command<Spec extends FlagSpec = FlagSpec> {
  /** The lines of `--help` after the first. */
  usage: string;
  flags: Spec;
  /** `progress` tells people one line at once, where something takes a while; programs are not told. */
  run(flags: FlagValues<Spec>, env: CollectorEnv, progress: (line: string) => void): Promise<Outcome>;
}

/** Types a command by its flags. */
export const defineCommand = <const Spec extends FlagSpec>(command: Command<Spec>): Command<Spec> => command;

/** A command that cannot go on. The message is one line for people and holds no secret; `details` are its further lines. */
export class CommandFailure extends Error {
  readonly exitCode: ExitCode;
  readonly code: string;
  readonly details: readonly string[];

  constructor(
    exit: ExitCode,
    code: string,
    message: string,
    options: { details?: readonly string[]; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "CommandFailure";
    this.exitCode = exit;
    this.code = code;
    this.details = options.details ?? [];
  }
}

/** A wrong command line: exit code 2. */
export const usageFailure = (message: string): CommandFailure => new CommandFailure(exitCode.usage, "usage", message);
