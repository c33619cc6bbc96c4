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
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { openFleetDatabase, seedLargeFleet } from "./large-fleet.ts";

/** Opens a seeded fleet of `hosts`, and a core in this process that reports it; `clock` is as far behind as the fleet. */
export const openReportsLab = async (hosts: number, resources: AsyncDisposableStack) => {
  const database = resources.use(await openFleetDatabase(systemClock.now()));
  await seedLargeFleet(database, hosts, systemClock);
  const behindMs = await behindOf(database);
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
  };
};

/** Returns how far the newest heartbeat of a fleet is behind the clock. */
const behindOf = async ({ sql }: EmbeddedDatabase): Promise<number> => {
  const [row] = await sql<{ ms: string }[]>`
    select floor(extract(epoch from max(last_heartbeat_at)) * 1000)::text as ms from fleet_status`;
  return systemClock.now() - Number(row?.ms);
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
  const shared = { db, clock, stopping: stop.signal };
  const fleetColumns = createFleetColumns({
    ...shared,
    sharedFor: viewsShared,
    onFailure: console.error,
  });
  const pastColumns = createPastColumns({ ...shared, codec: zstdCodec, present: fleetColumns });
  const hourColumns = createHourColumns(shared);
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
