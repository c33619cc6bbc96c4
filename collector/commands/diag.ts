import { defaultConfigPath, loadConfig } from "../config/load-config.ts";
import { composeDiagBundle } from "../status/diag-bundle.ts";
import { defineCommand, exitCode } from "./command.ts";

/**
 * `diag`: prints the diagnostics bundle (docs/collector-config.md). Does not disturb a running collector. Exits with 0 whenever the bundle was
 * written, also for an invalid or missing config.
 */
export const diagCommand = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
  --json            the bundle on one line
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    const loaded = await loadConfig(flags.config, env);
    return {
      exitCode: exitCode.done,
      lines: [],
      json: await composeDiagBundle(loaded, env),
      jsonAlways: true,
    };
  },
});
