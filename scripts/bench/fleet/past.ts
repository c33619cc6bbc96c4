import { dayMs } from "#kit/clock.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { type Bench, readBenchOptions, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import { cpuSecondsOf, ownCpuSeconds, startMeter } from "../support/processes.ts";
import { openReportsLab } from "./reports-lab.ts";

const page = "health?sort=severity&limit=200";

/** The requests of the `look`th look, at a time: those of a name are sent together. */
const requestsOf = (look: number, at: string): Readonly<Record<string, readonly string[]>> => ({
  first: [`${page}&at=${at}`, `health/facets?at=${at}`],
  again: [`health?state=stale&sort=last_heartbeat_at&limit=200&at=${at}`],
  factors: [`health/factors?state=stale&at=${at}`],
  "factors now": [`health/factors?state=stale&queue_above_bytes=${look}`],
  timeline: [`health/timeline?span=${look % 2 === 0 ? "24h" : "30d"}`],
});

/**
 * Measures `--looks` times that are spread over `--days`, each the first at its time: a page with its summary and the facets, as the page
 * requests them together; then another page of that time, what its stale hosts have in common, and the counts of the strip. Each host renewed
 * its certificate every ten days, took a config every week and a version every month, and was silent now and then; no heartbeats are written
 * beside. `--kept` is a directory that keeps the seeded fleet for the next run. The floor is a page of the present. `cpu_ms` is the mean CPU
 * of core and PostgreSQL, which neighbours do not swing.
 */
export const pastBench: Bench = async (args) => {
  const options = readBenchOptions(args, { collectors: 100_000, days: 90, kept: "", looks: 60 });
  const { days, looks } = options;
  await using resources = new AsyncDisposableStack();
  const { database, clock, fleetColumns, get, samples } = await openReportsLab(options, resources);
  const cpuMs: Record<string, number> = {};
  const timed = async (name: string, paths: readonly string[]): Promise<void> => {
    const meter = startMeter(() => ({ own: ownCpuSeconds() + cpuSecondsOf(database.pid) }));
    const read = async (path: string) => (await get(path)).text();
    await samples.time(name, () => Promise.all(paths.map(read)));
    cpuMs[name] = (cpuMs[name] ?? 0) + meter().cpu.own * 1000;
  };
  await fleetColumns.load();
  await get(page);
  await timed("floor", [page]);
  for (let look = 0; look < looks; look++) {
    // In no order of time, and never one twice.
    const ago = ((look * 37) % looks) + 0.37;
    const at = new Date(clock.now() - (ago / looks) * days * dayMs).toISOString();
    for (const [name, paths] of Object.entries(requestsOf(look, at))) await timed(name, paths);
  }
  const figure = samples.p95("first");
  const floor = samples.p95("floor");
  const each = (of: (name: string) => number) =>
    Object.fromEntries(Object.keys(cpuMs).map((name) => [name, of(name)]));
  return {
    figure,
    unit: "ms",
    floor,
    ratio: rounded(figure / floor, 1),
    ...judgeGoals("past", {
      first_ms: figure,
      again_ms: samples.p95("again"),
      timeline_ms: samples.p95("timeline"),
      factors_ms: Math.max(samples.p95("factors"), samples.p95("factors now")),
    }),
    details: {
      ...options,
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
