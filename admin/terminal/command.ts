import type { Option } from "commander";
import type { AdminExitCode } from "./exit-codes.ts";
import type { OutputOptions } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** The options that every command takes. */
export interface GlobalOptions extends OutputOptions {
  url?: string;
  yes: boolean;
}

/** A command's work: its arguments and options, parsed. */
export type Action<Options> = (
  terminal: Terminal,
  options: Omit<GlobalOptions, keyof Options> & Options,
  ...args: string[]
) => Promise<AdminExitCode | undefined> | Promise<void>;

/**
 * Returns what declares the commands of a file: by name with arguments, such as `policies show <id>`, summary, work and options. `formats` are
 * the values of `-o` in place of the usual ones, the first by default. The file is loaded when a command runs, so that `--help` is fast.
 */
export type CommandsOf = <Module>(
  load: () => Promise<Module>,
) => <Options>(
  path: string,
  summary: string,
  work: (file: Module) => Action<Options>,
  options?: readonly Option[],
  formats?: readonly string[],
) => void;
