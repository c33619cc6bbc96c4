import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { oneLine } from "#kit/log.ts";

/** EX_DATAERR of sysexits(3): the exit code for input that is not what the command reads. */
export const exitData = 65;
const exitUsage = 2;

/** The option with a text of a command line. */
export const textOption = { type: "string" } as const;
/** The option without a text. */
export const switchOption = { type: "boolean", default: false } as const;

/** Reads the options of a command, and its one argument if it takes one. Returns null for any other command line. */
export const readCommandLine = <const Options extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: Options,
  { takesArgument }: { takesArgument: boolean },
) => {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options,
      allowPositionals: takesArgument,
    });
    const [argument = "", ...others] = positionals;
    return others.length > 0 || takesArgument === (argument === "") ? null : { values, argument };
  } catch {
    return null;
  }
};

/** Prints how to use a program, and returns its exit code: 0 if it was asked for, or else 2. */
export const printUsage = (usage: string, isAsked = false): number => {
  (isAsked ? process.stdout : process.stderr).write(usage);
  return isAsked ? 0 : exitUsage;
};

/** Prints the result of a command as one line of JSON. */
export const printResult = (result: object): void =>
  void process.stdout.write(`${oneLine(JSON.stringify(result))}\n`);
