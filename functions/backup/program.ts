import { parseArgs } from "node:util";
import { type CoreConfig, parseCommandConfig } from "../config/core-config.ts";
import { BackupRefused } from "../node/backup/archive.ts";
import { runConfigured } from "../node/run-configured.ts";
import { backUp, makeKey } from "./back-up.ts";
import { checkBackup, readIdentities, restore, writeSettings } from "./restore.ts";

const usage = `svc-server backup --new-key FILE      make a key for backups and print its recipient; keep FILE away from this machine
svc-server backup --to FILE --recipient AGE… [--with-telemetry]
                                      write the database, and the files and settings of core, encrypted to the recipients
svc-server restore FILE --identity KEY              restore it into an empty database
svc-server restore FILE --identity KEY --check      read all of it, and count what restoring it would undo
svc-server restore FILE --identity KEY --settings DIR   write its files and settings into a new directory, without a database
`;

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const options = {
  backup: { to: text, recipient: { ...text, multiple: true }, "with-telemetry": flag, "new-key": text },
  restore: { identity: text, check: flag, settings: text },
} as const;

/** Runs `svc-server backup` or `restore` (docs/backup.md). Returns an exit code: 1 for what is refused, 2 for a wrong use. */
export const backupCommand = async (
  command: "backup" | "restore",
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<number> => {
  try {
    const run = orderOf(command, args);
    if (run === undefined) {
      process.stderr.write(usage);
      return 2;
    }
    if (!run.needsDatabase) return print(await run.run());
    const program = { usage, parse: parseCommandConfig, load: async () => undefined, serve: async () => undefined };
    const commands = { [command]: async (config: CoreConfig) => print(await run.run(config)) };
    return await runConfigured({ ...program, commands }, { command, env });
  } catch (error) {
    if (!(error instanceof BackupRefused)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
};

type Order =
  | { needsDatabase: false; run(): Promise<object> }
  | { needsDatabase: true; run(config: CoreConfig): Promise<object> };

const orderOf = (command: "backup" | "restore", args: readonly string[]): Order | undefined => {
  try {
    if (command === "backup") {
      const { values } = parseArgs({ args: [...args], options: options.backup });
      const { to, recipient: recipients = [], "with-telemetry": withTelemetry = false, "new-key": key } = values;
      if (key !== undefined) return { needsDatabase: false, run: () => makeKey(key) };
      if (to === undefined || recipients.length === 0) return undefined;
      return { needsDatabase: true, run: (config) => backUp(config, { to, recipients, withTelemetry }) };
    }
    const { values, positionals } = parseArgs({ args: [...args], options: options.restore, allowPositionals: true });
    const [file, ...more] = positionals;
    const { identity, check = false, settings } = values;
    if (file === undefined || more.length > 0 || identity === undefined) return undefined;
    if (settings !== undefined)
      return { needsDatabase: false, run: async () => writeSettings(file, readIdentities(identity), settings) };
    const restoreOrCheck = check ? checkBackup : restore;
    return { needsDatabase: true, run: async (config) => restoreOrCheck(config, file, readIdentities(identity)) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code?.startsWith("ERR_PARSE_ARGS")) return undefined;
    throw error;
  }
};

const print = (result: object): number => {
  process.stdout.write(`${JSON.stringify(result)}\n`);
  return 0;
};
