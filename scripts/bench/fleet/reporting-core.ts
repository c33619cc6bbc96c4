import { openDatabaseSocket } from "../../../functions/node/database/database-socket.ts";
import { zstdCodec } from "../../../functions/node/ingest/zstd-codec.ts";
import { createHourColumns } from "../../../functions/store/completeness/hour-columns.ts";
import { connectDatabase } from "../../../functions/store/database/database.ts";
import { createFleetColumns } from "../../../functions/store/fleet/columns/fleet-columns.ts";
import { createPastColumns } from "../../../functions/store/fleet/past/past-columns.ts";
import type { Clock } from "../../../kit/clock.ts";
import { createInProcessCore } from "../../lab/in-process-core.ts";

/** Creates a core in this process that keeps hosts in its memory, with a pool of reports as a server has it. */
export const openReportingCore = (url: string, clock: Clock) => {
  const { db, close } = connectDatabase({ url, openSocket: openDatabaseSocket, connectionsMax: 4 });
  const stop = new AbortController();
  const needs = { db, clock, stopping: stop.signal };
  const fleetColumns = createFleetColumns({ ...needs, sharedFor: { ms: 1000, clock }, onFailure: console.error });
  const pastColumns = createPastColumns({ ...needs, codec: zstdCodec, present: fleetColumns });
  const hourColumns = createHourColumns(needs);
  return {
    core: createInProcessCore({ db, clock, viewMs: 1000, fleetColumns, pastColumns, hourColumns }),
    db,
    fleetColumns,
    async [Symbol.asyncDispose]() {
      stop.abort("the bench is over");
      await close();
    },
  };
};
