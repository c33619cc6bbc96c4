import { type DiagRefusal, diagBytesMax } from "#proto/management/diag.ts";
import { loadConfig, type UsableConfig } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";

/** The answer to core's request for diagnostics: what `diag` prints, or why not. */
export type DiagAnswer = { bundle: string } | { refusal: DiagRefusal };

/** Composes the answer of a collector that runs with `running`. Forbidden if either that config or the one on disk says so. */
export const composeDiagAnswer = async (
  running: UsableConfig,
  env: Pick<CollectorEnv, "clock" | "effectiveUid" | "variables">,
): Promise<DiagAnswer> => {
  const onDisk = await loadConfig(running.path, env);
  if ([running, onDisk].some(({ config }) => config?.management.remoteDiag === false))
    return { refusal: "forbidden" };
  const { composeDiagBundle } = await import("../status/diag-bundle.ts");
  const bundle = JSON.stringify(await composeDiagBundle(onDisk, env));
  return Buffer.byteLength(JSON.stringify(bundle)) > diagBytesMax
    ? { refusal: "too_large" }
    : { bundle };
};
