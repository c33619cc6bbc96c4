import { parseArgs } from "node:util";
import type { CollectorConfig } from "#proto/collector-config/parse.ts";
import {
  describeConfigError,
  isUsable,
  type LoadedConfig,
  loadConfig,
  type UsableConfig,
} from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { identityDirectoryOf } from "../identity/identity-directory.ts";

/** The exit codes of every command (docs/collector-config.md); `config` (EX_CONFIG of sysexits) is a fault that a restart cannot fix. */
export const exitCode = { done: 0, failed: 1, usage: 2, config: 78 } as const;
type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** The flags of a command: `text` takes a value, `switch` does not. */
type FlagKinds = Readonly<Record<string, "text" | "switch">>;

/** The values of parsed flags. */
export type FlagValues<Kinds extends FlagKinds> = {
  readonly [Name in keyof Kinds]: Kinds[Name] extends "text" ? string | undefined : boolean;
};

/** The result of a command: lines for people on stderr, and one object for programs (`--json`) on stdout. */
export interface CommandOutcome {
  exitCode: ExitCode;
  lines: readonly string[];
  json: object;
  /** Printed on stdout instead of the lines. */
  text?: string;
  /** Prints the object without `--json` too. */
  jsonAlways?: boolean;
}

/** One command of `svc-collector`. */
export interface Command<Kinds extends FlagKinds = FlagKinds> {
  /** The lines of `--help` after the first. */
  usage: string;
  flags: Kinds;
  /** Whether it takes words that are not flags. */
  operands?: boolean;
  /** `progress` prints one line at once, before something that takes a while; not with `--json`. */
  run(
    flags: FlagValues<Kinds>,
    env: CollectorEnv,
    progress: (line: string) => void,
    operands: readonly string[],
  ): Promise<CommandOutcome>;
}

/** Types a command by its flags. */
export const defineCommand = <const Kinds extends FlagKinds>(
  command: Command<Kinds>,
): Command<Kinds> => command;

/**
 * Parses arguments by `kinds`, and adds positional arguments to `operands`. Throws a usage failure for an unknown or repeated flag, a missing
 * value, or a positional argument without `operands`. No message repeats an argument, which may be a token by mistake: only names of known
 * flags, and names that cannot be a token.
 */
export const parseFlags = <Kinds extends FlagKinds>(
  kinds: Kinds,
  args: readonly string[],
  operands?: string[],
): FlagValues<Kinds> => {
  const options = Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => [
      name,
      { type: kind === "text" ? "string" : "boolean" } as const,
    ]),
  );
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values: Record<string, string | boolean | undefined> = {};
  for (const [name, kind] of Object.entries(kinds))
    values[name] = kind === "text" ? undefined : false;
  const seen = new Set<string>();
  for (const token of tokens) {
    if (token.kind === "positional") {
      if (operands === undefined) throw usageFailure(operandRefusal(kinds));
      operands.push(token.value);
    }
    if (token.kind !== "option") continue;
    if (seen.has(token.name)) throw usageFailure(`--${token.name} is given twice`);
    seen.add(token.name);
    values[token.name] = optionValue(kinds, token);
  }
  return values as FlagValues<Kinds>;
};

const operandRefusal = (kinds: FlagKinds) =>
  Object.hasOwn(kinds, "config")
    ? "takes flags only; name the config with --config <path>"
    : "takes flags only; pass a token with --token-file or --token-stdin";

const optionValue = (
  kinds: FlagKinds,
  { name, value }: { name: string; value: string | undefined },
): string | true => {
  const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
  if (kind === undefined) throw usageFailure(unknownFlag(name));
  if (kind === "switch") {
    if (value !== undefined) throw usageFailure(`--${name} takes no value`);
    return true;
  }
  if (!value || value.startsWith("--")) throw usageFailure(`--${name} needs a value`);
  return value;
};

const unknownFlag = (name: string) => {
  if (name === "token")
    return "a token is not an argument; pass it with --token-file or --token-stdin";
  return /^[a-z]+(-[a-z]+){0,5}$/.test(name) && name.length <= 32
    ? `unknown flag --${name}`
    : "unknown flag";
};

/** A command failed. The message is one line for people, without secrets; `details` are further lines. */
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

/** Creates the failure of a wrong command line: exit code 2. */
export const usageFailure = (message: string): CommandFailure =>
  new CommandFailure(exitCode.usage, "usage", message);

/** Creates the failure of a command that did not do its work: exit code 1. */
export const commandFailure = (
  code: string,
  message: string,
  options?: { details?: readonly string[]; cause?: unknown },
): CommandFailure => new CommandFailure(exitCode.failed, code, message, options);

/** Creates the failure of a config with errors: exit code 78, or 1 after an error of the disk, which a restart may fix. */
export const configFailure = ({ errors, isUnreadable }: LoadedConfig): CommandFailure =>
  new CommandFailure(
    isUnreadable ? exitCode.failed : exitCode.config,
    "config_invalid",
    "the config is invalid or missing (line:column key error)",
    { details: errors.map(describeConfigError) },
  );

/** Loads the config at `path`. Throws a failure that lists every error if it cannot be parsed. */
export const loadParsedConfig = async (
  path: string | undefined,
  env: Pick<CollectorEnv, "effectiveUid">,
): Promise<CollectorConfig> => {
  const loaded = await loadConfig(path, env);
  if (loaded.config === undefined) throw configFailure(loaded);
  return loaded.config;
};

/** Loads the config at `path`. Throws a failure that lists every error if it cannot run. */
export const loadUsableConfig = async (
  path: string | undefined,
  env: Pick<CollectorEnv, "effectiveUid">,
): Promise<UsableConfig> => {
  const loaded = await loadConfig(path, env);
  if (isUsable(loaded)) return loaded;
  throw configFailure(loaded);
};

/** Returns the identity directory of a config. Throws a command failure for files that are laid out by hand. */
export const identityDirectoryFor = (config: CollectorConfig) => {
  const path = identityDirectoryOf(config);
  if (path !== undefined) return path;
  throw commandFailure(
    "identity_layout",
    "cert_file and key_file must be current/tls.crt and current/tls.key of one identity directory, as enroll lays it out: only there can both be replaced in one step",
  );
};
