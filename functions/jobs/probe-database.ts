import type { Core } from "../core.ts";
import type { DatabaseClock } from "./database-clock.ts";

/**
 * Creates a tick that queries the server. Under load, requests detect an unavailable server; without load this tick does, before the next
 * request waits for it, and also a restore of the database. Logs the first failed tick, and the first that succeeds again.
 */
export const createDatabaseProbe = (
  { log }: Pick<Core, "log">,
  {
    clock,
    checkRestore,
  }: { clock: Pick<DatabaseClock, "measure">; checkRestore(): Promise<unknown> },
): (() => Promise<undefined>) => {
  let isAvailable = true;
  return async () => {
    try {
      await clock.measure();
      await checkRestore();
      if (!isAvailable) log.info({}, "the database is available again");
      isAvailable = true;
    } catch (err) {
      if (isAvailable) log.warn({ err }, "the database is unavailable");
      isAvailable = false;
    }
  };
};
