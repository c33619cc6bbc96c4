import type { Core } from "#functions/core.ts";
import { openDatabaseSocket } from "#functions/node/database/database-servers.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { countAuditEvents } from "#functions/store/audit/audit.ts";
import { createHourColumns } from "#functions/store/completeness/hour-columns.ts";
import { connectDatabase } from "#functions/store/database/database.ts";
import { createFleetColumns } from "#functions/store/fleet/columns/fleet-columns.ts";
import { createPastColumns } from "#functions/store/fleet/past/past-columns.ts";
import { type Clock, systemClock } from "#kit/clock.ts";
import { createInProcessCore, openApp } from "#scripts/lab/in-process-core.ts";
import { mintBridgeToken, people } from "#scripts/lab/people.ts";
import { Samples } from "../support/samples.ts";
import { openSeededFleet } from "./large-fleet.ts";

/**
 * Opens a seeded fleet, and a core in this process that reports it; `clock` is as far behind as the fleet. `kept` is a
 * directory that keeps the fleet for the next run.
 */
export const openReportsLab = async (
  { collectors, kept }: { collectors: number; kept: string },
  resources: AsyncDisposableStack,
) => {
  const seeded = await openSeededFleet(collectors, kept, systemClock);
  const { behindMs } = seeded;
  const database = resources.use(seeded.database);
  let aheadMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() - behindMs + aheadMs };
  const reporting = resources.use(openReportingCore(database.url, clock));
  return {
    ...reporting,
    database,
    behindMs,
    clock,
    /** Moves the clock of core ahead of the fleet's. */
    setAhead: (ms: number) => {
      aheadMs = ms;
    },
    get: openReports(reporting.core),
    samples: new Samples(),
  };
};

/** Returns a function that reads what is below `/v1/collector/` as an auditor. It throws for another status than 200. */
const openReports = (core: Core): ((path: string) => Promise<Response>) => {
  const send = openApp(core);
  const secret = core.config.authTokenSecret.reveal();
  return async (path) => {
    const token = await mintBridgeToken(secret, {
      sub: people.auditor.userId,
      now: core.clock.now(),
    });
    const headers = { Authorization: `Bearer ${token}` };
    const response = await send(new Request(`http://core.bench/v1/collector/${path}`, { headers }));
    if (response.status !== 200) throw new Error(`${path}: ${await response.text()}`);
    return response;
  };
};

/** Creates a core in this process that keeps hosts in its memory, with a pool of reports as a server has it. */
export const openReportingCore = (url: string, clock: Clock) => {
  const { db, close } = connectDatabase({ url, openSocket: openDatabaseSocket, connectionsMax: 4 });
  const stop = new AbortController();
  const viewsShared = { ms: 1000, clock, version: () => countAuditEvents(db) };
  const needs = { db, clock, stopping: stop.signal };
  const fleetColumns = createFleetColumns({
    ...needs,
    sharedFor: viewsShared,
    onFailure: console.error,
  });
  const pastColumns = createPastColumns({ ...needs, codec: zstdCodec, present: fleetColumns });
  const hourColumns = createHourColumns(needs);
  return {
    core: createInProcessCore({ db, clock, viewsShared, fleetColumns, pastColumns, hourColumns }),
    db,
    fleetColumns,
    async [Symbol.asyncDispose]() {
      stop.abort("the bench is over");
      await close();
    },
  };
};
