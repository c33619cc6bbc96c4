import { defaultConfigPath, loadConfig } from "../config/load-config.ts";
import { describeStatus } from "../status/describe-status.ts";
import { fetchStatus, NoStatusError } from "../status/status-socket.ts";
import { CommandFailure, defineCommand, exitCode } from "./command.ts";
import { configFailure } from "./usable-config.ts";

/**
 * `status`: prints the status of the collector that runs with a config, from the unix socket in its data directory. Exits with 1 and
 * one line if none runs.
 */
export const statusCommand = defineCommand({
  usage: `  --config <path>   the config of the running collector (default ${defaultConfigPath})
  --json            one JSON object on stdout
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    // Only the data directory is needed: the running collector reports the other errors of the file.
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
