import { defaultConfigPath, loadConfig } from "../config/load-config.ts";
import { describeStatus } from "../status/describe-status.ts";
import { fetchStatus, NoStatusError } from "../status/status-socket.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure, exitCode } from "./command-failure.ts";
import { configFailure } from "./usable-config.ts";

/**
 * `status`: what the collector that runs with a config does right now, asked over the unix socket in its data directory. Exit code
 * 1 and one clear line when none runs.
 */
export const status = defineCommand({
  usage: `  --config <path>   the config of the running collector (default ${defaultConfigPath})
  --json            one JSON object on stdout
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    // Only where its data are must be known: what else is wrong with the file is the running collector's to tell.
    const { config, errors } = await loadConfig(flags.config ?? defaultConfigPath, env);
    if (config === undefined) throw configFailure(errors);
    try {
      const found = await fetchStatus(config.buffer.dir);
      return { exitCode: exitCode.done, lines: [], text: describeStatus(found), json: found };
    } catch (error) {
      if (error instanceof NoStatusError)
        throw new CommandFailure(exitCode.failed, error.code, error.message, { cause: error });
      throw error;
    }
  },
});
