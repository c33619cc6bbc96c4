import { defaultConfigPath } from "../config/load-config.ts";
import { openIdentityDirectory } from "../identity/identity-directory.ts";
import { forgetNumbers } from "../identity/take-bundle.ts";
import {
  defineCommand,
  exitCode,
  identityDirectoryFor,
  loadParsedConfig,
  usageFailure,
} from "./command.ts";
import { asCommandFailure } from "./core-failure.ts";

/** `trust reset`: forgets the numbers of the CA bundles that the host has, so that the next one may have any number. */
export const trustCommand = defineCommand({
  usage: `  reset             forget the numbers of the CA bundles: the next one may have any. The present authorities stay until that is settled
  --config <path>   the config (default ${defaultConfigPath})
  --json            one JSON object on stdout

Run it as the collector's own user. A running collector follows within seconds.
`,
  flags: { config: "text" },
  operands: true,
  run: async (flags, env, _progress, operands) => {
    if (operands.join(" ") !== "reset") throw usageFailure("write: trust reset");
    const config = await loadParsedConfig(flags.config, env);
    const directory = openIdentityDirectory(identityDirectoryFor(config), env);
    await directory
      .locked(() => forgetNumbers(directory.path, env))
      .catch((error: unknown) => {
        throw asCommandFailure(error);
      });
    return {
      exitCode: exitCode.done,
      lines: ["the numbers of the CA bundles are forgotten; core's next one may have any"],
      json: { ok: true },
    };
  },
});
