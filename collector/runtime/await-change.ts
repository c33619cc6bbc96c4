import type { Log } from "../../kit/log.ts";
import { watchFiles } from "../config/file-watch.ts";
import { isUsable, loadConfig, type UsableConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import type { CoreSession } from "./core-session.ts";
import { isSame, noteErrors, type RunState } from "./run-state.ts";

/** Waits until the files say something that can be run and is not what runs, and gives it; undefined when the signal aborts. */
export const awaitChange = async (
  { env, log }: { env: Pick<CollectorEnv, "clock" | "effectiveUid">; log: Log },
  state: RunState,
  session: CoreSession,
  signal: AbortSignal,
): Promise<UsableConfig | undefined> => {
  const watch = await watchFiles(filesOf(state.loaded), env);
  try {
    for (;;) {
      // Looked at once the watch stands, so that no change falls in between.
      const found = await loadConfig(state.loaded.path, env);
      if (signal.aborted) return undefined;
      if (isUsable(found) && !isSame(found, state.loaded) && !isSame(found, state.refused)) return found;
      noteErrors(state, found, log);
      await Promise.race([watch.next(signal, found.errors.length > 0), session.failed]);
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  } finally {
    watch.close();
  }
};

const filesOf = ({ path, config }: UsableConfig): string[] => {
  const { certFile, keyFile, caFile } = config.forwarder.mtls;
  return [
    path,
    certFile,
    keyFile,
    caFile,
    ...(config.management.caFile === undefined ? [] : [config.management.caFile]),
  ];
};
