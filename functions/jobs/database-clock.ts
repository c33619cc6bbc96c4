import type { Clock } from "../../kit/clock.ts";
import { type Executor, readDatabaseTime } from "../store/database.ts";

/** From here on a difference is one of clocks, and not of a slow answer. */
const correctedMsMin = 60_000;

/** The database's clock, as far as the last measurement says. */
export interface DatabaseClock {
  /** Measures the difference from core's clock, and returns the database's time. */
  measure(): Promise<number>;
  /** Returns by how many milliseconds core's clock is ahead, at the last measurement. */
  aheadMs(): number;
  /** Returns core's time, or the database's when they differ by more than a minute: for what retention will judge. */
  now(): number;
}

/** Makes the clock of a database; measure it before its first use. */
export const createDatabaseClock = (db: Executor, clock: Clock): DatabaseClock => {
  let aheadMs = 0;
  return {
    async measure() {
      const time = await readDatabaseTime(db);
      aheadMs = clock.now() - time;
      return time;
    },
    aheadMs: () => aheadMs,
    now: () => clock.now() - (Math.abs(aheadMs) > correctedMsMin ? aheadMs : 0),
  };
};
