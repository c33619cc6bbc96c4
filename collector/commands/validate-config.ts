import { defaultConfigPath, describeConfigError, loadConfig } from "../config/load-config.ts";
import { defineCommand, exitCode } from "./command.ts";

/** `validate-config`: exits with 0 and prints the hash, or with 78 and every error with its position. Changes nothing. */
export const validateConfigCommand = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
  --json            one JSON object on stdout: {ok, errors: [{path, line, column, message}], running_config_hash}
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    const { errors, runningConfigHash } = await loadConfig(flags.config, env);
    const ok = errors.length === 0;
    return {
      exitCode: ok ? exitCode.done : exitCode.config,
      lines: ok ? ["the config is valid"] : errors.map(describeConfigError),
      json: { ok, errors, running_config_hash: runningConfigHash },
    };
  },
});
