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

/** Adds commands to the program; each loads its work only when it runs, so that `--help` is fast. */
export interface Commands {
  /** Declares a command: its name with arguments, such as `policies show <id>`; `load` imports its work. */
  add<Options>(
    path: string,
    declare: {
      summary: string;
      options?: readonly Option[];
      /** The values of `-o` in place of the usual ones, the first by default. */
      formats?: readonly string[];
      load: () => Promise<Action<Options>>;
    },
  ): void;
}
