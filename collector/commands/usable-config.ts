import type { ConfigTextError } from "#proto/collector-config/tree.ts";
import {
  describeConfigError,
  isUsable,
  loadConfig,
  type UsableConfig,
  unreadable,
} from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { CommandFailure, exitCode } from "./command.ts";

/** Creates the failure of a config with these errors: exit code 78, or 1 for an error of the disk, which a restart may fix. */
export const configFailure = (errors: readonly ConfigTextError[]): CommandFailure => {
  const isTemporary = errors.some(({ message }) => message.endsWith(unreadable));
  const message = "the config is invalid or missing (line:column key error)";
  return new CommandFailure(
    isTemporary ? exitCode.failed : exitCode.config,
    "config_invalid",
    message,
    {
      details: errors.map(describeConfigError),
    },
  );
};

/** Loads the config at `path`. Throws a failure that lists every error if it cannot run. */
export const loadUsableConfig = async (
  path: string,
  env: Pick<CollectorEnv, "effectiveUid">,
): Promise<UsableConfig> => {
  const loaded = await loadConfig(path, env);
  if (isUsable(loaded)) return loaded;
  throw configFailure(loaded.errors);
};
