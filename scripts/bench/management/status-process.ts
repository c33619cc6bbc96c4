/** The statuses of a fleet that another core serves: `startStatusLoad` in a process of its own, on the same database. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { systemClock } from "#kit/clock.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import { type StatusLoad, type StatusLoadFigures, startStatusLoad } from "./status-load.ts";

/** The database, the rate, and how far the clock of the fleet is behind. */
interface StatusProcess {
  url: string;
  perSecond: number;
  behindMs: number;
}

/** Starts the process; resolves when it sends. */
export const startStatusProcess = async (
  options: StatusProcess,
): Promise<Pick<StatusLoad, "stop">> => {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(options)]);
  await once(child, "message");
  return {
    stop: async () => {
      const stopped = once(child, "message");
      child.send("stop");
      const [figures] = (await stopped) as [StatusLoadFigures];
      child.disconnect();
      return figures;
    },
  };
};

const [given] = process.argv.slice(2);
if (import.meta.main && given !== undefined) {
  const { url, perSecond, behindMs } = JSON.parse(given) as StatusProcess;
  const database = connectNodeDatabase({ url, deadlineMs: 0 });
  const clock = { now: () => systemClock.now() - behindMs };
  const load = await startStatusLoad(database, { perSecond, clock, now: clock.now() });
  process.send?.("started");
  await once(process, "message");
  process.send?.(await load.stop());
  await database.close();
}
