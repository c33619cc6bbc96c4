/** The heartbeats of a fleet that another core serves: `startHeartbeatLoad` in a process of its own, on the same database. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { openDatabaseSocket } from "../../../functions/node/database/database-socket.ts";
import { connectDatabase } from "../../../functions/store/database/database.ts";
import { systemClock } from "../../../kit/clock.ts";
import { type HeartbeatFigures, type HeartbeatLoad, startHeartbeatLoad } from "./heartbeat-load.ts";

/** The dependencies of the process: the database, the rate, and how far the clock of the fleet is behind. */
export interface HeartbeatProcess {
  url: string;
  perSecond: number;
  behindMs: number;
}

/** Starts the process; resolves when it sends. */
export const startHeartbeatProcess = async (options: HeartbeatProcess): Promise<HeartbeatLoad> => {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(options)]);
  await once(child, "message");
  return {
    stop: async () => {
      const stopped = once(child, "message");
      child.send("stop");
      const [figures] = (await stopped) as [HeartbeatFigures];
      child.disconnect();
      return figures;
    },
  };
};

const [given] = process.argv.slice(2);
if (import.meta.main && given !== undefined) {
  const { url, perSecond, behindMs } = JSON.parse(given) as HeartbeatProcess;
  const database = connectDatabase({ url, openSocket: openDatabaseSocket, deadlineMs: 0 });
  const clock = { now: () => systemClock.now() - behindMs };
  const load = await startHeartbeatLoad(database, { perSecond, clock, now: clock.now() });
  process.send?.("started");
  await once(process, "message");
  process.send?.(await load.stop());
  await database.close();
}
