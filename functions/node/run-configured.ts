import { systemClock } from "#kit/clock.ts";
import { drainOnEscape } from "#kit/contain-failures.ts";
import { errorCode } from "#kit/describe-error.ts";
import { ConfigError, type Environment, variableFault } from "#kit/env.ts";
import { createLineLog, type LineLog } from "#kit/line-log.ts";
import type { Log } from "#kit/log.ts";
import { printUsage } from "./command-line.ts";
import { readTrustedFile } from "./config-files.ts";

/** EX_CONFIG of sysexits(3): the units do not start such a program again. */
const exitConfig = 78;

/** How long the end of a program waits for the reader of its log. */
const logEndMs = 1_000;

/** A program that the environment configures. */
interface ConfiguredProgram<Config extends { logLevel: string }, Loaded> {
  usage: string;
  parse(
    env: Environment,
    readFile: (path: string) => string,
  ): { config: Config; warnings: readonly string[] };
  /**
   * Loads the files that the configuration names, without the network. The start and `check-config` both call it, so that they reject the same
   * configurations. Throws `ConfigError`.
   */
  load(config: Config, log: Log): Promise<Loaded>;
  /** Tries what `check-config` can try beyond that. Returns warnings. Throws `ConfigError`. */
  check?(config: Config): Promise<readonly string[]>;
  /** Runs without a command, until SIGTERM or SIGINT. */
  serve(config: Config, log: Log, loaded: Loaded): Promise<void>;
  /** Further commands by name; each returns an exit code. Every program has `check-config`. */
  commands?: Readonly<Record<string, (config: Config) => Promise<number>>>;
}

/**
 * Runs one command line and returns its exit code: 78 for an invalid configuration, with each fault by its variable's name; 1 for
 * a `StartFault`, or after an error that nothing caught; 2 for an unknown command. Throws any other error.
 */
export const runConfigured = async <Config extends { logLevel: string }, Loaded>(
  { usage, parse, load, check, serve, commands = {} }: ConfiguredProgram<Config, Loaded>,
  { command, env }: { command: string | undefined; env: Environment },
): Promise<number> => {
  if (command !== undefined && command !== "check-config" && !Object.hasOwn(commands, command))
    return printUsage(usage, command === "--help" || command === "help");
  try {
    const { config, warnings } = parse(env, (path) => readTrustedFile(path).toString("utf8"));
    if (command === "check-config") {
      const warn = (warning: string) => process.stderr.write(`warning: ${warning}\n`);
      warnings.forEach(warn);
      await load(config, createStdoutLog("silent"));
      (await check?.(config))?.forEach(warn);
      process.stdout.write("configuration is valid\n");
      return 0;
    }
    const run = command === undefined ? undefined : commands[command];
    if (run !== undefined) return await run(config);
    const log = createStdoutLog(config.logLevel);
    for (const warning of warnings) log.warn({}, warning);
    try {
      const loaded = await load(config, log);
      return (await drainOnEscape(log, () => serve(config, log, loaded))) ? 1 : 0;
    } finally {
      log.flush();
      // Unread lines would keep the process alive.
      setTimeout(() => process.exit(), logEndMs).unref();
    }
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof StartFault)) throw error;
    process.stderr.write(`${error.message}\n`);
    return error instanceof ConfigError ? exitConfig : 1;
  }
};

/** Creates a log that writes one JSON object per line to stdout, at `level` and above; none at `silent`. */
const createStdoutLog = (level: string): LineLog => {
  // As when the reader of the log ends.
  process.stdout.on("error", () => undefined);
  return createLineLog({ level, format: "json" }, process.stdout, systemClock, 12);
};

/** Resolves with the first SIGTERM or SIGINT of the process. */
export const stopSignal = (): Promise<string> =>
  new Promise((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => resolve(name));
  });

/** A start that fails for now: an address in use, a database that is unavailable. Not a configuration error: a restart may succeed. */
export class StartFault extends Error {
  override readonly name = "StartFault";
}

const listenFaults: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use by another process",
  EADDRNOTAVAIL: "is not an address of this machine",
  ENOTFOUND: "has a host that cannot be resolved",
};

/** Runs `listen`. Turns a failure about the address into an error that names `variable`: exit code 1, or 78 for missing rights. */
export const listenFor = async <Listener>(
  variable: string,
  listen: () => Promise<Listener>,
): Promise<Listener> => {
  try {
    return await listen();
  } catch (cause) {
    const code = errorCode(cause) ?? "";
    if (code === "EACCES")
      throw variableFault(variable, "is an address that this user may not listen on");
    const fault = listenFaults[code];
    throw fault === undefined
      ? cause
      : new StartFault(`${variable}: the address ${fault}`, { cause });
  }
};
