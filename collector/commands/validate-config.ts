import { describeConfigError } from "../config/describe-config-error.ts";
import { defaultConfigPath, loadConfig } from "../config/load-config.ts";
import { defineCommand } from "./command.ts";
import { exitCode } from "./command-failure.ts";

/** `validate-config`: exit code 0 and the hash, or 78 and every fault with its place. Changes nothing. */
export const validateConfig = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
  --json            one JSON object on stdout: {ok, errors: [{path, line, column, message}], running_config_hash}
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    const { errors, runningConfigHash } = await loadConfig(flags.config ?? defaultConfigPath, env);
    const ok = errors.length === 0;
    return {
      exitCode: ok ? exitCode.done : exitCode.configInvalid,
      lines: ok ? ["the config is valid"] : errors.map(describeConfigError),
      json: { ok, errors, running_config_hash: runningConfigHash },
    };
  },
});
