import type { Clock } from "#kit/clock.ts";
import type { Executor } from "../store/database/database.ts";
import { readDatabaseTime } from "../store/database/server-settings.ts";

/** The database's clock, by the last measurement. */
export type DatabaseClock = ReturnType<typeof createDatabaseClock>;

/**
 * Creates the clock of a database; measure it before its first use. It is ahead of the server by at most a round trip, and a slow response
 * does not set it back.
 */
export const createDatabaseClock = (db: Executor, clock: Clock) => {
  /** The database's time at the origin of monotonic time. */
  let origin: number | undefined;
  /** Returns the database's time: the measured one plus the monotonic time since, so that this machine's clock has no effect. */
  const now = () => (origin === undefined ? clock.now() : Math.floor(origin + clock.monotonic()));
  return {
    /** Measures the database's clock, and returns its time. */
    async measure() {
      const sentAt = clock.monotonic();
      const time = await readDatabaseTime(db);
      const least = time - clock.monotonic();
      const most = time - sentAt;
      if (origin === undefined || origin < least || origin > most) origin = least;
      return time;
    },
    /** Returns by how many milliseconds this machine's clock is ahead. */
    aheadMs: () => clock.now() - now(),
    now,
  };
};

/** Returns a clock that follows the database's, for every time that core stores or compares with stored ones. */
export const followDatabase = (clock: Clock, { now }: Pick<DatabaseClock, "now">): Clock => ({
  ...clock,
  now,
  machineNow: () => clock.now(),
});
