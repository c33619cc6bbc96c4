import { and, gt, sql } from "drizzle-orm";
import { ingestLostRange } from "#drizzle/schema/account.ts";
import { collectorIdentity } from "#drizzle/schema/enrollment.ts";
import { collectorHealth } from "#drizzle/schema/health.ts";
import { ingestGap } from "#drizzle/schema/ingest.ts";
import type { LostRange } from "#proto/completeness/lost-ranges.ts";
import type { Database, Executor } from "../database/database.ts";
import { insertRows, timestamptz } from "../database/statements.ts";
import type { QueueName } from "./queues.ts";

/** Counts the hosts whose last reports, after `since`, say that core acknowledged more than the database has; not what an object store has lost. */
export const countGapHosts = (db: Database, since: Date): Promise<number> => {
  const isOfStore = sql`exists (select from ${ingestLostRange}
    where ${ingestLostRange.hostId} = ${ingestGap.hostId} and ${ingestLostRange.recordedAt} = ${ingestGap.lastAt})`;
  return db.$count(ingestGap, and(gt(ingestGap.lastAt, since), sql`not ${isOfStore}`));
};

/**
 * Adds a range that the database lost to the host's total, up to 2^53 - 1, and marks its health row as one that lost records, until
 * its next heartbeat.
 */
export const addGap = async (
  db: Executor,
  hostId: string,
  sequences: bigint,
  at: Date,
): Promise<void> => {
  const most = sql`${String(Number.MAX_SAFE_INTEGER)}::numeric`;
  const added = sql`${String(sequences)}::numeric`;
  await db
    .insert(ingestGap)
    .values({ hostId, ranges: 1, recordsMax: sql`least(${added}, ${most})`, lastAt: at })
    .onConflictDoUpdate({
      target: ingestGap.hostId,
      set: {
        ranges: sql`${ingestGap.ranges} + 1`,
        recordsMax: sql`least(${ingestGap.recordsMax} + ${added}, ${most})`,
        lastAt: sql`excluded.last_at`,
      },
    });
  const wasAtRisk = sql`${collectorHealth.queueAtRisk} or ${collectorHealth.droppedSincePrevious}`;
  const since = sql`case when ${wasAtRisk} then ${collectorHealth.queueAtRiskSince} end`;
  await db
    .update(collectorHealth)
    .set({
      droppedSincePrevious: true,
      queueAtRiskSince: sql`coalesce(${since}, ${timestamptz(at)})`,
    })
    .where(
      sql`${collectorHealth.identityId} = (select id from ${collectorIdentity} where ${collectorIdentity.identity} = ${hostId})`,
    );
};

/** Adds ranges of queues whose bytes are lost to those that are subtracted from accounts. */
export const addLostRanges = async (
  db: Executor,
  ranges: readonly (QueueName & LostRange)[],
  recordedAt: Date,
): Promise<void> => {
  await insertRows(
    db,
    ingestLostRange,
    ranges.map(({ hostId, queueId, from, through }) => ({
      hostId,
      queueId,
      fromSequence: from,
      throughSequence: through,
      recordedAt,
    })),
    sql`on conflict (host_id, queue_id, from_sequence) do update
      set through_sequence = greatest(ingest_lost_range.through_sequence, excluded.through_sequence), recorded_at = excluded.recorded_at`,
  );
};
