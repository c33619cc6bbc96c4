import type { Log } from "../../kit/log.ts";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";

/** A log whose level and format can change while everybody keeps it. */
export interface ReloadableLog extends Log {
  reload(settings: CollectorConfig["log"]): void;
}

/** Writes through what `create` makes of the settings. */
export const createReloadableLog = (
  create: (settings: CollectorConfig["log"]) => Log,
  settings: CollectorConfig["log"],
): ReloadableLog => {
  let inner = create(settings);
  return {
    debug: (fields, message) => inner.debug(fields, message),
    info: (fields, message) => inner.info(fields, message),
    warn: (fields, message) => inner.warn(fields, message),
    error: (fields, message) => inner.error(fields, message),
    reload: (changed) => {
      inner = create(changed);
    },
  };
};
