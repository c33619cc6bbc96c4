import { defaultConfigPath } from "../config/load-config.ts";
import { openIdentityDirectory } from "../identity/identity-directory.ts";
import { removeStoredBundles } from "../identity/take-bundle.ts";
import {
  defineCommand,
  exitCode,
  identityDirectoryFor,
  loadParsedConfig,
  usageFailure,
} from "./command.ts";
import { asCommandFailure } from "./core-failure.ts";

/** `trust reset`: forgets the CA bundles that core has published, so that `ca_file` counts and the next bundle may have any number. */
export const trustCommand = defineCommand({
  usage: `  reset             forget the CA bundles: the ca_file of the config count, and the next bundle may have any number
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
      .locked(() => removeStoredBundles(directory.path))
      .catch((error: unknown) => {
        throw asCommandFailure(error);
      });
    return {
      exitCode: exitCode.done,
      lines: ["the CA bundles are forgotten; ca_file counts until core's next one is taken"],
      json: { ok: true },
    };
  },
});
