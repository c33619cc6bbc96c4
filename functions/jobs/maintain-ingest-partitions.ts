import { dayMs } from "#kit/clock.ts";
import type { WriteCore } from "../core.ts";
import { type Actor, recordAudit } from "../domain/audit/audit-log.ts";
import type { Executor } from "../store/database/database.ts";
import { clockDifferenceMsMax } from "../store/database/server-settings.ts";
import { addLostEnvelopes, countNotExported } from "../store/export/losses.ts";
import { foldStoredCounts } from "../store/ingest/commit-batch.ts";
import {
  countPartition,
  createPartition,
  deleteOldestDefaultDay,
  dropPartition,
  findPartitionDays,
} from "../store/ingest/partitions.ts";
import { claimDrop, recordClock } from "../store/retention/retention-clock.ts";
import { deleteOldVolume } from "../store/volume/fold.ts";

/** The UTC days whose partitions a tick created or dropped. */
interface PartitionReport {
  created: string[];
  dropped: string[];
  /** Core's clock and the database's differ too much: nothing was dropped. */
  clocks_differ?: true;
  /** The database's clock jumped ahead from this time to that one: nothing was dropped. */
  paused?: { from: string; to: string };
}

const daysAhead = 7;
const actor: Actor = { type: "system", id: "ingest-partitions", display: "ingest retention" };

/**
 * Creates the partitions from yesterday to a week ahead, and drops the oldest one whose last envelope is older than `retentionDays` (0:
 * none), audited with its row count: by the database's clock, and only while core's agrees with it. Drops the data of one day per day, and
 * none after a jump of the clock (retention-clock.ts), so that a wrong clock loses little before somebody notices. Deletes volume of hosts
 * that is too old. Idempotent; runs before the listener opens, and every hour. Returns undefined when there was nothing to do.
 */
export const maintainIngestPartitions = async (
  core: WriteCore,
  { retentionDays, databaseTime }: { retentionDays: number; databaseTime: () => Promise<number> },
): Promise<PartitionReport | undefined> => {
  const { db, clock } = core;
  const now = await databaseTime();
  const today = now - (now % dayMs);
  const { present, whole } = await findPartitionDays(db);
  const wanted = Array.from({ length: daysAhead + 2 }, (_, index) => today + (index - 1) * dayMs);
  const missing = wanted.filter((day) => !whole.includes(day));
  for (const day of missing) await createPartition(db, day);
  await foldStoredCounts(db);

  const created = missing.map(nameOf);
  const pause = await recordClock(db, new Date(now));
  if (pause !== null) {
    const from = pause.from.toISOString();
    const to = pause.to.toISOString();
    return { created, dropped: [], paused: { from, to } };
  }
  await deleteOldVolume(db, now);
  if (retentionDays === 0) return created.length === 0 ? undefined : { created, dropped: [] };
  if (Math.abs(clock.now() - now) > clockDifferenceMsMax)
    return { created, dropped: [], clocks_differ: true };
  const dropped = await withinDayLimit(() => dropOldest(core, { now, present, retentionDays }));
  if (created.length === 0 && dropped === undefined) return undefined;
  return { created, dropped: dropped === undefined ? [] : [nameOf(dropped)] };
};

/** The data of one day was already dropped on this day. */
class DayLimitReached extends Error {}

const withinDayLimit = async <Result>(drop: () => Promise<Result>): Promise<Result | undefined> => {
  try {
    return await drop();
  } catch (error) {
    if (error instanceof DayLimitReached) return undefined;
    throw error;
  }
};

const dropOldest = async (
  core: WriteCore,
  {
    now,
    present,
    retentionDays,
  }: { now: number; present: readonly number[]; retentionDays: number },
) => {
  const { db } = core;
  const keptFrom = now - retentionDays * dayMs;
  type Details = { rows: number; exact: boolean; partition: "day" | "default" };
  // Retention has priority over an export that is behind: the loss is counted and audited.
  const record = async (
    tx: Executor,
    day: number,
    details: Details,
    lost: Readonly<Record<string, number>>,
  ) => {
    if (details.rows > 0 && !(await claimDrop(tx, new Date(now)))) throw new DayLimitReached();
    await addLostEnvelopes(tx, lost);
    await recordAudit(tx, core, {
      actor,
      action: "ingest_partition.drop",
      target: { type: "ingest_partition", id: nameOf(day) },
      outcome: "success",
      details: {
        ...details,
        retention_days: retentionDays,
        ...(Object.keys(lost).length > 0 ? { not_exported: lost } : {}),
      },
    });
  };
  const [oldest] = present.filter((day) => day + dayMs <= keptFrom);
  if (oldest === undefined) {
    const lost = await countNotExported(db, keptFrom - dayMs, "default");
    return deleteOldestDefaultDay(db, keptFrom, (tx, { day, rows }) =>
      record(tx, day, { rows, exact: true, partition: "default" }, lost),
    );
  }
  const { rows, isExact } = await countPartition(db, oldest);
  const lost = await countNotExported(db, oldest, "day");
  const isDropped = await dropPartition(db, oldest, (tx) =>
    record(tx, oldest, { rows, exact: isExact, partition: "day" }, lost),
  );
  return isDropped ? oldest : undefined;
};

const nameOf = (day: number) => new Date(day).toISOString().slice(0, 10);
