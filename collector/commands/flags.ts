import { parseArgs } from "node:util";
import { usageFailure } from "./command-failure.ts";

/** The flags a command knows: `text` takes a value, `switch` does not. */
export type FlagSpec = Readonly<Record<string, "text" | "switch">>;

/** What was given for them. */
export type FlagValues<Spec extends FlagSpec> = {
  readonly [Name in keyof Spec]: Spec[Name] extends "text" ? string | undefined : boolean;
};

/**
 * Parses arguments by `spec`; anything unknown, repeated, without its value or beside the flags throws a usage failure. No message
 * repeats an argument, as it may be a token given by mistake: only the names of known flags, and names that cannot be one.
 */
export const parseFlags = <Spec extends FlagSpec>(spec: Spec, args: readonly string[]): FlagValues<Spec> => {
  const options = Object.fromEntries(
    Object.entries(spec).map(([name, kind]) => [name, { type: kind === "text" ? "string" : "boolean" } as const]),
  );
  const { tokens } = parseArgs({ args: [...args], options, strict: false, allowPositionals: true, tokens: true });
  const values: Record<string, string | boolean | undefined> = {};
  for (const [name, kind] of Object.entries(spec)) values[name] = kind === "text" ? undefined : false;
  const given = new Set<string>();
  for (const token of tokens) {
    if (token.kind === "option-terminator") continue;
    if (token.kind === "positional")
      throw usageFailure("takes flags only; a token is never given as an argument (use --token-file or --token-stdin)");
    const kind = Object.hasOwn(spec, token.name) ? spec[token.name] : undefined;
    if (kind === undefined) throw usageFailure(unknownFlag(token.name));
    if (given.has(token.name)) throw usageFailure(`--${token.name} is given twice`);
    given.add(token.name);
    if (kind === "switch" && token.value !== undefined) throw usageFailure(`--${token.name} takes no value`);
    if (kind === "text" && (token.value === undefined || token.value === "" || token.value.startsWith("--")))
      throw usageFailure(`--${token.name} needs a value`);
    values[token.name] = kind === "text" ? token.value : true;
  }
  return values as FlagValues<Spec>;
};

const unknownFlag = (name: string): string => {
  if (name === "token") return "a token is never given as an argument; use --token-file or --token-stdin";
  return /^[a-z]+(-[a-z]+){0,5}$/.test(name) && name.length <= 32
    ? `does not know --${name}`
    : "does not know a flag given";
};
