import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { countAuditEvents } from "#functions/store/audit/audit.ts";
import { createHourColumns } from "#functions/store/completeness/hour-columns.ts";
import { createFleetColumns } from "#functions/store/fleet/columns/fleet-columns.ts";
import { createPastColumns } from "#functions/store/fleet/past/past-columns.ts";
import { type Clock, systemClock } from "#kit/clock.ts";
import { createInProcessCore, openReader } from "#scripts/lab/in-process-core.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
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
  const read = openReader(reporting.core, "auditor");
  return {
    ...reporting,
    database,
    behindMs,
    clock,
    /** Moves the clock of core ahead of the fleet's. */
    setAhead: (ms: number) => {
      aheadMs = ms;
    },
    /** Reads what is below `/v1/collector/`. */
    get: (path: string) => read(`/v1/collector/${path}`),
  };
};

/** Returns how far the newest heartbeat of a fleet is behind the clock. */
const behindOf = async ({ sql }: EmbeddedDatabase): Promise<number> => {
  const [row] = await sql<{ ms: string }[]>`
    select floor(extract(epoch from max(last_heartbeat_at)) * 1000)::text as ms from fleet_status`;
  return systemClock.now() - Number(row?.ms);
};

/** Creates a core in this process that keeps hosts in its memory, with a pool of reports as a server has it. */
export const openReportingCore = (url: string, clock: Clock) => {
  const { db, close } = connectNodeDatabase({ url, connectionsMax: 4 });
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
