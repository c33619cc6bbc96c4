import { seedPeople } from "../lab/people.ts";
import { seedFleet } from "../lab/seed-fleet.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../postgres/embedded-database.ts";

/**
 * Opens a database with the people of the lab. PostgreSQL does not cache scans of a table above a quarter of the default 128 MB of
 * buffers, so a server of a large fleet gets more.
 */
export const openFleetDatabase = async (now: number): Promise<EmbeddedDatabase> => {
  const database = await openEmbeddedDatabase({ settings: { shared_buffers: "512MB" } });
  await seedPeople(database.db, now);
  return database;
};

/** Seeds `count` hosts. Seeding writes each row several times at once; vacuum removes holes that a fleet that grew does not have. */
export const seedLargeFleet = async ({ db, sql }: EmbeddedDatabase, count: number, now: number): Promise<void> => {
  await seedFleet(db, { count, now: new Date(now) });
  await sql.unsafe("vacuum full fleet_host");
  await sql.unsafe("vacuum analyze");
};
