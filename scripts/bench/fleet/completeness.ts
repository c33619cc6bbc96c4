import { dayMs, hourMs, rfc3339, systemClock } from "#kit/clock.ts";
import { byteOfState } from "#proto/completeness/hour-note.ts";
import { hourStates } from "#proto/completeness/hour-state.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { type Bench, readBenchOptions, rounded } from "../support/bench.ts";
import { judgeGoals } from "../support/goals.ts";
import { openReportsLab } from "./reports-lab.ts";

const days = 8;

/**
 * Measures the reports of a week of hours of `--collectors` hosts: the fleet's picture by each filter that the page has, further pages, and
 * the strip of a host. Of the hosts one in 100 was silent for a week, one in 25 was short for an hour a day, and one in five was late in the
 * same hour. `--kept` is a directory that keeps the seeded fleet for the next run. The floor is a bare count of the hosts' days.
 */
export const completenessBench: Bench = async (args) => {
  const options = readBenchOptions(args, { collectors: 100_000, rounds: 20, kept: "" });
  await using resources = new AsyncDisposableStack();
  const { database, clock, get, samples } = await openReportsLab(options, resources);
  await seedWeek(database, Math.floor(clock.now() / dayMs));
  const read = async (path: string): Promise<Record<string, unknown>> => (await get(path)).json();
  const hosts = await database.sql<{ id: string }[]>`
    select id from collector_identity order by md5(identity) limit ${options.rounds}`;
  const strips = hosts.map(({ id }) => `hosts/${id}/completeness`);
  const first = await read("completeness");
  const yesterday = rfc3339(clock.now() - dayMs);
  const pages = [
    "",
    "?state=short",
    "?state=late&state=core_out",
    "?state=complete",
    `?from=${yesterday}`,
    `?cursor=${first.next_cursor}`,
  ].map((query) => `completeness${query}`);
  const time = async (name: string, paths: readonly string[]): Promise<void> => {
    for (const path of paths) await samples.time(name, () => read(path));
  };
  await time("warm-up", strips.slice(0, 5));
  await time("picture", Array.from({ length: options.rounds }, () => pages).flat());
  for (const path of pages) await time(path.slice(0, 60), [path, path, path]);
  await time("strip", strips);
  await samples.time(
    "floor",
    () => database.sql`select count(*) from completeness_day where incomplete_hours >= 0`,
  );
  const floor = samples.p95("floor");
  const figures = { picture_ms: samples.p95("picture"), strip_ms: samples.p95("strip") };
  const p50 = (name: string) => samples.quantile(0.5, name.slice(0, 60));
  return {
    figure: figures.picture_ms,
    unit: "ms",
    floor,
    ratio: rounded(figures.picture_ms / floor, 1),
    ...judgeGoals("completeness", figures),
    details: {
      requests: samples.count("picture") + samples.count("strip"),
      hosts_listed: first.hosts_listed,
      picture_ms: {
        p50: p50("picture"),
        by_page: Object.fromEntries(pages.map((path) => [path.slice(0, 60), p50(path)])),
      },
      strip_ms: { p50: p50("strip") },
    },
  };
};

/** Gives each host the states of `days` days, the last one `today`. */
const seedWeek = async ({ sql }: EmbeddedDatabase, today: number): Promise<void> => {
  const [complete, short, late, silent] = (["complete", "short", "late", "silent"] as const).map(
    byteOfState,
  );
  const bytes = (value: number | undefined) =>
    `decode(repeat('${Number(value).toString(16).padStart(2, "0")}', 24), 'hex')`;
  await sql.unsafe(`
    insert into completeness_day (host_id, day, states, details, incomplete_hours, undelivered, xid)
    select identity, day,
      case when kind = 0 then ${bytes(silent)}
        when kind <= 4 then set_byte(${bytes(complete)}, (kind * 5 + day) % 24, ${short})
        when kind <= 24 and day = ${today - 3} then set_byte(${bytes(complete)}, 13, ${late})
        else ${bytes(complete)} end,
      case when kind between 1 and 4 then '{"' || (kind * 5 + day) % 24 || '":[3600,3290,[2,310]]}' end,
      case when kind = 0 then 24 when kind <= 4 or (kind <= 24 and day = ${today - 3}) then 1 else 0 end, 0, 7
    from (select identity, (row_number() over (order by identity) % 100)::int as kind from fleet_status) as f,
      generate_series(${today - days + 1}, ${today}) as day`);
  const places = hourStates.map((state) => {
    const value = byteOfState(state);
    return `count(*) filter (where get_byte(states, h) = ${value})::int`;
  });
  await sql.unsafe(`
    insert into completeness_hour (hour, hosts)
    select to_timestamp(day * 86400 + h * 3600), array[${places.join(", ")}]
    from completeness_day, generate_series(0, 23) as h where day * 24 + h < ${Math.floor(systemClock.now() / hourMs)} group by day, h`);
  await sql.unsafe("vacuum analyze completeness_day, completeness_hour");
};
