import { readFileSync } from "node:fs";
import { errorCode } from "../../kit/describe-error.ts";
import { ConfigError, type Environment } from "../../kit/env.ts";
import type { Log } from "../../kit/log.ts";
import { createLog } from "./create-log.ts";

/** EX_CONFIG of sysexits(3). */
const exitConfig = 78;

/** A program that the environment configures. */
export interface ConfiguredProgram<Config extends { logLevel: string }> {
  usage: string;
  parse(env: Environment, readFile: (path: string) => string): { config: Config; warnings: readonly string[] };
  /** Without a command: serves until SIGTERM or SIGINT. */
  serve(config: Config, log: Log): Promise<void>;
  /** What it does beside, by command; each gives an exit code. `check-config` is there for every program. */
  commands?: Readonly<Record<string, (config: Config) => Promise<number>>>;
}

/**
 * Runs one command line and gives its exit code: 78 with every fault by name for a configuration that does not hold, 1 for an
 * address that cannot be listened on, 2 for a command that is not there. Throws what else goes wrong.
 */
export const runConfigured = async <Config extends { logLevel: string }>(
  { usage, parse, serve, commands = {} }: ConfiguredProgram<Config>,
  { command, env }: { command: string | undefined; env: Environment },
): Promise<number> => {
  if (command !== undefined && command !== "check-config" && !Object.hasOwn(commands, command)) {
    process.stderr.write(usage);
    return command === "--help" ? 0 : 2;
  }
  try {
    const { config, warnings } = parse(env, (path) => readFileSync(path, "utf8"));
    if (command === "check-config") {
      for (const warning of warnings) process.stderr.write(`warning: ${warning}\n`);
      process.stdout.write("configuration is valid\n");
      return 0;
    }
    const run = command === undefined ? undefined : commands[command];
    if (run !== undefined) return await run(config);
    const log = createLog(config.logLevel);
    for (const warning of warnings) log.warn({}, warning);
    await serve(config, log);
    return 0;
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof ListenFault)) throw error;
    process.stderr.write(`${error.message}\n`);
    return error instanceof ConfigError ? exitConfig : 1;
  }
};

/** The first SIGTERM or SIGINT that the process gets. */
export const stopSignal = (): Promise<string> =>
  new Promise((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => resolve(name));
  });

/** An address that cannot be listened on: not a fault of the configuration's form, since another process may let go of it. */
export class ListenFault extends Error {
  override readonly name = "ListenFault";
}

const words: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use by another process",
  EADDRNOTAVAIL: "is not an address of this machine",
  EACCES: "may not be listened on by this user",
  ENOTFOUND: "has a host that cannot be resolved",
};

/** Does `listen`; a refusal of the address becomes a `ListenFault` that names `variable`. */
export const listenFor = async <Listener>(variable: string, listen: () => Promise<Listener>): Promise<Listener> => {
  try {
    return await listen();
  } catch (cause) {
    const fault = words[errorCode(cause) ?? ""];
    throw fault === undefined ? cause : new ListenFault(`${variable}: the address ${fault}`, { cause });
  }
};
