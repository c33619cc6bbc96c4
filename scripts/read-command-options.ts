import { parseArgs } from "node:util";

/** A default; `null` for a text that may be missing, `false` for a switch, a list for an option that may be repeated. */
type Default = string | number | null | false | readonly string[];

type Value<Given extends Default> = Given extends number
  ? number
  : Given extends false
    ? boolean
    : Given extends null
      ? string | undefined
      : Given extends readonly string[]
        ? string[]
        : string;

type CommandOptions<Defaults> = {
  [Name in keyof Defaults]: Defaults[Name] extends Default ? Value<Defaults[Name]> : never;
};

/**
 * Returns the options of a command, or their defaults. For `--help`, an unknown option or a number that is none it prints the options and ends
 * the program, with exit code 2 unless help was requested.
 */
export const readCommandOptions = <const Defaults extends Readonly<Record<string, Default>>>(
  defaults: Defaults,
  args: readonly string[] = process.argv.slice(2),
): CommandOptions<Defaults> => {
  const entries = Object.entries<Default>(defaults);
  const options = entries.map(([name, value]) => {
    const type = value === false ? ("boolean" as const) : ("string" as const);
    return [name, { type, multiple: Array.isArray(value) }] as const;
  });
  const read = (values: Readonly<Record<string, unknown>>, name: string, value: Default) => {
    const given = values[name];
    if (given === undefined) return value ?? undefined;
    if (typeof value !== "number") return given;
    if (!Number.isFinite(Number(given))) throw new Error(`--${name} is a number`);
    return Number(given);
  };
  const end = (line: string, exitCode: number): never => {
    const described = entries.map(([name, value]) =>
      value === false ? `  --${name}` : `  --${name} ${value ?? "TEXT"}`,
    );
    console.error([line, "options and their defaults:", ...described].join("\n"));
    process.exit(exitCode);
  };
  const given = args.filter((arg) => arg !== "--");
  if (given.includes("--help")) end("", 0);
  try {
    const { values } = parseArgs({ args: given, options: Object.fromEntries(options) });
    const found = entries.map(([name, value]) => [name, read(values, name, value)]);
    return Object.fromEntries(found) as CommandOptions<Defaults>;
  } catch (error) {
    return end(error instanceof Error ? error.message : "the options are not valid", 2);
  }
};
