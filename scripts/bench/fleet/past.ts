import { dayMs, systemClock } from "../../../kit/clock.ts";
import type { EmbeddedDatabase } from "../../postgres/embedded-database.ts";
import { type Bench, readBenchOptions, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import { cpuSecondsOf, ownCpuSeconds, startMeter } from "../support/processes.ts";
import { Samples } from "../support/samples.ts";
import { openSeededFleet } from "./large-fleet.ts";
import { openReportingCore, openReports } from "./reporting-core.ts";
import { pastOf } from "./seed-past.ts";

/**
 * Measures `--looks` times that are spread over `--days`, each the first at its time: a page with its summary and the facets, as the page
 * requests them together; then another page of that time, what its stale hosts have in common, and the counts of the strip. Each host renewed
 * its certificate every ten days, took a config every week and a version every month, and was silent now and then; no heartbeats are written
 * beside. `--kept` is a directory that keeps the seeded fleet for the next run. The floor is a page of the present. `cpu_ms` is the mean CPU
 * of core and PostgreSQL, which neighbours do not swing.
 */
export const pastBench: Bench = async (args) => {
  const {
    collectors: count,
    days,
    kept,
    looks,
  } = readBenchOptions(args, {
    collectors: 100_000,
    days: 90,
    kept: "",
    looks: 60,
  });
  const { database, behindMs } = await openSeededFleet(count, kept, systemClock, pastOf(days));
  await using _database = database;
  const clock = { ...systemClock, now: () => systemClock.now() - behindMs };
  await using reporting = openReportingCore(database.url, clock);
  const { core, fleetColumns } = reporting;
  const read = openReports(core);
  const get = async (path: string) => (await read(`health${path}`)).text();
  const samples = new Samples();
  const cpuMs: Record<string, number> = {};
  const timed = async (name: string, call: () => Promise<unknown>): Promise<void> => {
    const meter = startMeter(() => ({
      core: ownCpuSeconds(),
      postgres: cpuSecondsOf(database.pid),
    }));
    await samples.time(name, call);
    const { cpu } = meter();
    cpuMs[name] = (cpuMs[name] ?? 0) + (cpu.core + cpu.postgres) * 1000;
  };
  const page = "?sort=severity&limit=200";
  await fleetColumns.load();
  await get(page);
  await timed("floor", () => get(page));
  for (let look = 0; look < looks; look++) {
    // In no order of time, and never one twice.
    const ago = ((look * 37) % looks) + 0.37;
    const at = new Date(clock.now() - (ago / looks) * days * dayMs).toISOString();
    await timed("first", () => Promise.all([get(`${page}&at=${at}`), get(`/facets?at=${at}`)]));
    await timed("again", () => get(`?state=stale&sort=last_heartbeat_at&limit=200&at=${at}`));
    await timed("factors", () => get(`/factors?state=stale&at=${at}`));
    await timed("factors now", () => get(`/factors?state=stale&queue_above_bytes=${look}`));
    await timed("timeline", () => get(`/timeline?span=${look % 2 === 0 ? "24h" : "30d"}`));
  }
  const judged = judgeGoals("past", {
    first_ms: samples.p95("first"),
    again_ms: samples.p95("again"),
    timeline_ms: samples.p95("timeline"),
    factors_ms: Math.max(samples.p95("factors"), samples.p95("factors now")),
  });
  const figure = samples.p95("first");
  const floorMs = samples.p95("floor");
  const each = (of: (name: string) => number) =>
    Object.fromEntries(Object.keys(cpuMs).map((name) => [name, of(name)]));
  return {
    figure,
    unit: "ms",
    floor: floorMs,
    ratio: rounded(figure / floorMs, 1),
    ...judged,
    details: {
      collectors: count,
      days,
      looks,
      stored: await storedBytes(database),
      p50_ms: each((name) => samples.quantile(0.5, name)),
      cpu_ms: each((name) => rounded((cpuMs[name] ?? 0) / samples.count(name), 1)),
    },
  };
};

/** Returns rows and megabytes of what the past is read from. */
const storedBytes = async ({ sql }: EmbeddedDatabase): Promise<Record<string, string>> => {
  const tables = ["fleet_history", "fleet_silence", "fleet_checkpoint", "fleet_sample"];
  const rows = await sql.unsafe<{ name: string; rows: string; mb: number }[]>(
    tables
      .map(
        (name) =>
          `select '${name}' as name, (select count(*) from ${name}) as rows, pg_total_relation_size('${name}') / 1048576 as mb`,
      )
      .join(" union all "),
  );
  return Object.fromEntries(
    rows.map(({ name, rows: count, mb }) => [name, `${count} rows, ${mb} MB`]),
  );
};
