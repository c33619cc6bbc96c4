import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { readFleetView } from "#functions/domain/fleet/view-rules.ts";
import { createNowFinder } from "#functions/domain/now/report-now.ts";
import { countFleet } from "#functions/store/fleet/facets.ts";
import { type FleetPageRequest, findFleetPage } from "#functions/store/fleet/host-rows.ts";
import { summarizeFleet } from "#functions/store/fleet/summary.ts";
import { systemClock } from "#kit/clock.ts";
import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import { fleetSorts } from "#proto/fleet-health/vocabulary.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { measureDatabaseUse } from "../ingest/database-use.ts";
import { type StatusLoadFigures, startStatusLoad } from "../management/status-load.ts";
import { startStatusProcess } from "../management/status-process.ts";
import { type Bench, collectGarbage, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import { Samples } from "../support/samples.ts";
import { openReportsLab } from "./reports-lab.ts";

const pageRows = 200;
/** Half of them load the first page, and half the facets. */
const operatorsAtOnce = 8;

/** Typical queries of operators: everything, each kind of filter, broad and narrow ones. */
const filters: Readonly<Record<string, FleetFilter>> = {
  all: {},
  healthy: { states: ["healthy"] },
  stale: { states: ["stale"] },
  trouble: {
    states: ["renewal_failed", "config_invalid", "queue_at_risk"],
  },
  search: { text: ["host-9876"] },
  "search broadly": { text: ["dc-3"] },
  "search in vain": { text: ["nowhere"] },
  version: { version: ["0.9.0"] },
  "a label": { label: ["env:prod"] },
  "three labels": {
    label: ["env:dev", "region:dc-3", "team:web"],
  },
  "without a label": { notLabel: ["env:*"] },
  drifted: { drift: ["drifted"] },
  silent: { heartbeatOlderThanSeconds: 600 },
  expiring: { expiresWithinSeconds: 259_200 },
  "never forwarded": { forwarding: ["never"] },
  "pasted serial number": { text: ["0a:1b:2c:3d"] },
  "forwarded long ago": { envelopeOlderThanSeconds: 300 },
  "silent since": { silentSince: "2026-01-01T00:00:00Z" },
  changed: { changedWithinSeconds: 3600 },
  config: { config: ["6b86b2"] },
  "below a version": { versionRange: ["<1.4"] },
  "versions of a minor": { version: ["1.1*.*"] },
  "operating system": { platform: ["linux"] },
  "not an operating system": { notPlatform: ["linux"] },
  "failed authentication": { auth: ["failed"] },
  dropped: { droppedMoreThan: 0 },
  "queue by share": { queueAbovePercent: 50 },
  "queue full within 72 h": { queueFullWithinSeconds: 259_200 },
  "queue by size": { queueAboveBytes: 10_485_760 },
  "expires in a range": {
    expires: ["2026-01-01T00:00:00Z..2027-01-01T00:00:00Z"],
  },
  "stale in a place": {
    states: ["stale"],
    text: ["dc-3"],
    platform: ["linux/arm64"],
  },
};

/**
 * Measures the health report of `--hosts` hosts while `--heartbeats` a second are written: every filter by every sort in both
 * orders, first pages and later ones, at the database and through the route; the summary, the facets, several operators at once, and a CSV
 * with a row for each host. Heartbeats go to the database by core's statements, without a listener, in this process.
 * `--every 5` measures each fifth page. The floor is a bare page and count of that table, under load.
 */
export const healthBench: Bench = async (args) => {
  const options = readCommandOptions(
    {
      hosts: 100_000,
      rounds: 1,
      heartbeats: 1667,
      every: 1,
    },
    args,
  );
  const { heartbeats: perSecond, rounds } = options;
  await using resources = new AsyncDisposableStack();
  const lab = await openReportsLab(options.hosts, resources);
  const { database, behindMs, clock } = lab;
  // Warms the caches of the server and this process; the writers wrote most hosts once by then.
  const load = await startStatusLoad(database, {
    perSecond,
    clock: fleetClockOf(lab),
    now: clock.now(),
  });
  const status = await statusCost(database, load.recorded);
  const sizeBefore = await fleetMegabytes(database);
  const pages = await measurePages(lab, options);
  const operators = await measureOperators(lab);
  const parts = await measureParts(lab, rounds * 3);
  const now = await measureNow(lab);
  // For core it is an hour later, and no host has sent a heartbeat: each has a row.
  lab.setAhead(3_600_000);
  const beforeCsv = await load.stop();
  // In another process: what the writers of statuses hold here would count as memory of the CSV.
  const otherLoad = await startStatusProcess({ url: database.url, perSecond, behindMs });
  const csv = await downloadCsv(() => lab.get("health/export.csv?kind=stale"));
  const besideCsv = await otherLoad.stop();
  if (csv.rows !== options.hosts) throw new Error(`the CSV has ${csv.rows} rows`);
  const heartbeats = beforeCsv.per_second <= besideCsv.per_second ? beforeCsv : besideCsv;
  return describeHealth({
    ...pages,
    ...parts,
    now,
    options,
    operators,
    csv,
    heartbeats,
    status,
    sizes: { before: sizeBefore, after: await fleetMegabytes(database) },
  });
};

type Lab = Awaited<ReturnType<typeof openReportsLab>>;

/** The clock of the hosts, which stays when core's moves ahead. */
const fleetClockOf = ({ behindMs }: Lab) => ({ now: () => systemClock.now() - behindMs });

const allPages = () =>
  Object.entries(filters).flatMap(([name, filter]) =>
    fleetSorts.flatMap((sort) =>
      (["asc", "desc"] as const).map((order) => ({
        name: `${name} by ${sort} ${order}`,
        filter,
        page: { sort, order, limit: pageRows, after: null } satisfies FleetPageRequest,
        path: `health?${filterToParams(filter)}&sort=${sort}&order=${order}&limit=${pageRows}`,
      })),
    ),
  );

/** Measures pages and the ones after them, at the database and through the route. */
const measurePages = async (
  { core, get }: Lab,
  { rounds, every }: { rounds: number; every: number },
) => {
  const pages = allPages().filter((_, index) => index % every === 0);
  const atDatabase = new Samples();
  const atRoute = new Samples();
  for (const { path } of pages.filter((_, index) => index % 5 === 0)) await get(path);
  const loopDelay = monitorEventLoopDelay({ resolution: 1 });
  loopDelay.enable();
  for (let round = 0; round < rounds; round++)
    for (const { name, filter, page, path } of pages) {
      const view = await readFleetView(core, {});
      const find = (after: FleetPageRequest["after"]) =>
        findFleetPage(view, filter, { ...page, after });
      const read = async (url: string): Promise<{ next_cursor: string | null }> =>
        (await get(url)).json();
      const { next } = await atDatabase.time(name, () => find(null));
      if (next) await atDatabase.time(`${name}, next`, () => find(next));
      const { next_cursor: cursor } = await atRoute.time(name, () => read(path));
      if (cursor !== null)
        await atRoute.time(`${name}, next`, () => read(`${path}&cursor=${cursor}`));
    }
  loopDelay.disable();
  return { atDatabase, atRoute, loopDelay };
};

const measureOperators = async ({ get }: Lab): Promise<Samples> => {
  const operators = new Samples();
  const ask = async (_: unknown, index: number) => {
    const path = index % 2 === 0 ? `health?sort=severity&limit=${pageRows}` : "health/facets";
    await operators.time(path, async () => (await get(path)).text());
  };
  for (let round = 0; round < 10; round++)
    await Promise.all(Array.from({ length: operatorsAtOnce }, ask));
  return operators;
};

/** Measures *Now*: a whole look of core, and what people wait who share one. */
const measureNow = async ({ core, get }: Lab): Promise<Samples> => {
  const now = new Samples();
  const { viewsShared: _, ...unshared } = core;
  const find = createNowFinder(unshared);
  await get("../now");
  for (let round = 0; round < 20; round++) {
    if (round % 4 === 0) await now.time("look", () => find());
    await now.time("route", async () => (await get("../now")).text());
  }
  return now;
};

/** Measures the summary and the facets of each filter, and bare statements of the same table. */
const measureParts = async ({ core, database, get }: Lab, rounds: number) => {
  const parts = new Samples();
  const floor = new Samples();
  for (let round = 0; round < rounds; round++) {
    const view = await readFleetView(core, {});
    await floor.time(
      "page",
      () => database.sql`select * from fleet_status where identity > 'https://fleet.example.test/dc-4'
        order by identity limit ${pageRows + 1}`,
    );
    await floor.time(
      "count",
      () => database.sql`select count(*) from fleet_status where queue_bytes >= -1`,
    );
    for (const [name, filter] of Object.entries(filters)) {
      await parts.time(`summary: ${name}`, () => summarizeFleet(view, filter));
      await parts.time(`facets: ${name}`, () => countFleet(view, filter));
      await parts.time(`facets route: ${name}`, async () =>
        (await get(`health/facets?${filterToParams(filter)}`)).text(),
      );
    }
  }
  return { parts, floor };
};

interface Measured {
  options: { hosts: number; heartbeats: number };
  atDatabase: Samples;
  atRoute: Samples;
  loopDelay: ReturnType<typeof monitorEventLoopDelay>;
  operators: Samples;
  now: Samples;
  parts: Samples;
  floor: Samples;
  csv: Awaited<ReturnType<typeof downloadCsv>>;
  heartbeats: StatusLoadFigures;
  status: Awaited<ReturnType<typeof statusCost>>;
  sizes: { before: number; after: number };
}

const describeHealth = (measured: Measured) => {
  const { atDatabase, atRoute, loopDelay, operators, now, parts, floor } = measured;
  const { csv, heartbeats, status, sizes } = measured;
  const { heartbeats: wanted, ...options } = measured.options;
  const figure = atRoute.p95();
  const floorMs = floor.p95("count");
  const summary = parts.p95("summary: all");
  const facets = parts.p95("facets route: all");
  const judged = judgeGoals("health", {
    route_ms: figure,
    database_ms: atDatabase.p95(),
    operators_ms: operators.p95(),
    summary_ms: summary,
    facets_ms: facets,
    now_ms: now.p95("route"),
    csv_s: csv.seconds,
    csv_mb: csv.grown_mb,
    heartbeats: wanted > 0 ? heartbeats.per_second / wanted : null,
    status_us: status.postgres_us,
    status_wal: status.wal_bytes,
  });
  const times = (of: Samples) => ({ p50: of.quantile(0.5), p95: of.p95(), slowest: of.slowest() });
  const delay = (share: number) => rounded(loopDelay.percentile(share) / 1e6, 1);
  return {
    figure,
    unit: "ms",
    floor: floorMs,
    ratio: rounded(figure / floorMs, 1),
    ...judged,
    details: {
      ...options,
      requests: atRoute.count(),
      page_ms_at_database: times(atDatabase),
      page_ms_at_route: times(atRoute),
      loop_delay_ms: { p95: delay(95), p99: delay(99) },
      operators_at_once_ms: times(operators),
      summary_ms: { p95: summary, slowest: parts.slowest("summary: ") },
      facets_ms: { p95: facets, slowest: parts.slowest("facets: ") },
      now_ms: { p95: now.p95("route"), look: now.p95("look") },
      csv,
      heartbeats: { ...heartbeats, ...status },
      fleet_mb: sizes,
      floor: "a bare count over the table that the report reads",
      floor_page_ms: floor.p95("page"),
    },
  };
};

const touchMs = 75_000;
const costMs = 30_000;

/** Returns PostgreSQL's CPU and log for a status, once each page has been written since the checkpoint. */
const statusCost = async (database: EmbeddedDatabase, recorded: () => number) => {
  await sleep(touchMs);
  const before = recorded();
  const use = await measureDatabaseUse(database, "fleet_status");
  await sleep(costMs);
  const { cpu_us: postgres_us, wal_bytes } = await use(recorded() - before);
  return { postgres_us, wal_bytes };
};

/** Returns the size of the table that the report scans, which shows whether updates bloat it. */
const fleetMegabytes = async ({ sql }: EmbeddedDatabase): Promise<number> => {
  const [row] = await sql<
    { mb: number }[]
  >`select pg_table_size('fleet_status') / 1024 / 1024 as mb`;
  return Number(row?.mb);
};

/** Reads a CSV to its end; returns records without the header, seconds, the growth of memory, and the longest block of the loop. */
const downloadCsv = async (get: () => Promise<Response>) => {
  collectGarbage();
  const before = process.memoryUsage.rss();
  let highest = before;
  let rows = -1;
  let loopMs = 0;
  let tickAt = performance.now();
  const ticks = setInterval(() => {
    loopMs = Math.max(loopMs, performance.now() - tickAt - 5);
    tickAt = performance.now();
  }, 5);
  const startedAt = performance.now();
  const reader = (await get()).body?.getReader();
  for (let chunk = await reader?.read(); chunk?.value !== undefined; chunk = await reader?.read()) {
    rows += Buffer.from(chunk.value).toString("latin1").split("\r\n").length - 1;
    highest = Math.max(highest, process.memoryUsage.rss());
  }
  clearInterval(ticks);
  const seconds = rounded((performance.now() - startedAt) / 1000, 2);
  return {
    rows,
    seconds,
    grown_mb: rounded((highest - before) / 2 ** 20, 1),
    loop_ms: Math.round(loopMs),
  };
};
