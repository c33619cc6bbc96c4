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
