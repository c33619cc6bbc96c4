import type { Log } from "../../kit/log.ts";
import { watchFiles } from "../config/file-watch.ts";
import { inspectConfig, isUsable, type UsableInspection } from "../config/inspect.ts";
import type { CollectorEnv } from "../env.ts";
import type { CoreContact } from "./core-session.ts";
import { isSame, noteErrors, type RunState } from "./run-state.ts";

/** Waits until the files say something that can be run and is not what runs, and gives it; undefined when the signal aborts. */
export const awaitChange = async (
  { env, log }: { env: Pick<CollectorEnv, "clock" | "effectiveUid">; log: Log },
  state: RunState,
  contact: CoreContact,
  signal: AbortSignal,
): Promise<UsableInspection | undefined> => {
  const watch = await watchFiles(filesOf(state.inspection), env);
  try {
    for (;;) {
      // Looked at once the watch stands, so that no change falls in between.
      const found = await inspectConfig(state.inspection.path, env);
      if (signal.aborted) return undefined;
      if (isUsable(found) && !isSame(found, state.inspection) && !isSame(found, state.refused)) return found;
      noteErrors(state, found, log);
      await Promise.race([watch.next(signal, found.errors.length > 0), contact.failed]);
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  } finally {
    watch.close();
  }
};

const filesOf = ({ path, config }: UsableInspection): string[] => {
  const { certFile, keyFile, caFile } = config.forwarder.mtls;
  return [
    path,
    certFile,
    keyFile,
    caFile,
    ...(config.management.caFile === undefined ? [] : [config.management.caFile]),
  ];
};
