import type { CollectorEnv } from "../env.ts";
import type { ExitCode } from "./command-failure.ts";
import type { FlagSpec, FlagValues } from "./flags.ts";

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
