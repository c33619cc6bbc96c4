import type { Clock } from "../../kit/clock.ts";
import type { Database } from "../store/database.ts";
import {
  createPartition,
  dayMs,
  deleteFromDefaultPartition,
  dropPartition,
  findPartitionDays,
} from "../store/ingest-partitions.ts";

/** The UTC days whose partitions a tick created or dropped. */
export interface PartitionReport {
  created: string[];
  dropped: string[];
}

const daysAhead = 7;

/**
 * Creates the partitions from yesterday to a week ahead, and drops those whose last envelope is older than `retentionDays` (0: none).
 * Idempotent; runs before the listener opens, and every hour. Returns undefined when there was nothing to do.
 */
export const maintainIngestPartitions = async ({
  db,
  clock,
  retentionDays,
}: {
  db: Database;
  clock: Pick<Clock, "now">;
  retentionDays: number;
}): Promise<PartitionReport | undefined> => {
  const now = clock.now();
  const today = now - (now % dayMs);
  const present = await findPartitionDays(db);
  const wanted = Array.from({ length: daysAhead + 2 }, (_, index) => today + (index - 1) * dayMs);
  const missing = wanted.filter((day) => !present.includes(day));
  for (const day of missing) await createPartition(db, day);

  const keptFrom = now - retentionDays * dayMs;
  const expired = retentionDays === 0 ? [] : present.filter((day) => day + dayMs <= keptFrom);
  for (const day of expired) await dropPartition(db, day);
  if (retentionDays > 0) await deleteFromDefaultPartition(db, keptFrom);
  if (missing.length === 0 && expired.length === 0) return undefined;
  return { created: missing.map(nameOf), dropped: expired.map(nameOf) };
};

const nameOf = (day: number): string => new Date(day).toISOString().slice(0, 10);
