import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "#kit/clock.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import {
  type EmbeddedDatabase,
  openEmbeddedDatabase,
} from "#scripts/postgres/embedded-database.ts";

/** Opens a database with the people of the lab, and with PostgreSQL's own settings. */
export const openFleetDatabase = async (now: number): Promise<EmbeddedDatabase> => {
  const database = await openEmbeddedDatabase();
  await seedPeople(database.db, now);
  return database;
};

const hostsPerStep = 5000;

/**
 * Seeds `count` hosts as a fleet that grows: some thousand at a time, with a plain vacuum of the tables that were written several times,
 * as autovacuum does it.
 */
export const seedLargeFleet = async (
  { db, sql }: EmbeddedDatabase,
  count: number,
  clock: Pick<Clock, "now">,
): Promise<void> => {
  for (let first = 1; first <= count; first += hostsPerStep) {
    const last = Math.min(count, first + hostsPerStep - 1);
    await seedFleet(db, { first, count: last, now: new Date(clock.now()) });
    await sql.unsafe("vacuum collector_identity, collector_health, fleet_host, fleet_status");
  }
  await sql.unsafe("vacuum analyze");
};

/** A seeded fleet, and how far behind the clock it was seeded: measure with a clock that is set back by as much. */
export interface SeededFleet {
  database: EmbeddedDatabase;
  behindMs: number;
}

/**
 * Opens a database with `count` hosts. Given a directory, it keeps a copy of the seeded data there, and starts with that copy the next
 * time, in a second instead of a minute.
 */
export const openSeededFleet = async (
  count: number,
  keptIn: string,
  clock: Pick<Clock, "now">,
): Promise<SeededFleet> => {
  const home = join(keptIn, String(count));
  const dataFrom = join(home, "data");
  const stamp = join(home, "seeded");
  if (keptIn !== "" && existsSync(stamp)) {
    const database = await openEmbeddedDatabase({ dataFrom });
    return { database, behindMs: await behindOf(database, clock) };
  }
  const database = await openFleetDatabase(clock.now());
  await seedLargeFleet(database, count, clock);
  if (keptIn !== "") {
    await mkdir(home, { recursive: true });
    await database.copyTo(dataFrom);
    await writeFile(stamp, "");
  }
  return { database, behindMs: await behindOf(database, clock) };
};

/** Returns how far the newest heartbeat of a fleet is behind a clock. */
const behindOf = async ({ sql }: EmbeddedDatabase, clock: Pick<Clock, "now">): Promise<number> => {
  const [row] = await sql<{ ms: string }[]>`
    select floor(extract(epoch from max(last_heartbeat_at)) * 1000)::text as ms from fleet_status`;
  return clock.now() - Number(row?.ms);
};
