/*
 * Stores when retention last saw the database's clock, and the jump that pauses retention. Invariants:
 * - A jump ahead of more than a day pauses retention until the clock has continued for a day from there, or an operator confirms it; a
 *   clock that goes back ends the pause.
 * - At most one day's data is dropped on a day, unless an operator has confirmed more.
 */
import { and, eq, isNull, lt, or } from "drizzle-orm";
import { retentionClock } from "#drizzle/schema/deployment.ts";
import { dayMs } from "#kit/clock.ts";
import type { Database, Executor } from "../database/database.ts";
import { findRetentionPause, pauseBetween, type RetentionPause } from "./retention-pause.ts";

type RetentionRow = Omit<typeof retentionClock.$inferSelect, "singleton">;

/** Returns the new state after the database's clock was `now`. On the first day nothing is dropped. */
const seeClock = (row: RetentionRow | undefined, now: Date): RetentionRow => {
  const today = dayOf(now);
  if (row === undefined)
    return {
      seenAt: now,
      jumpedFrom: null,
      jumpedAt: null,
      droppedOn: today,
      confirmedUntil: null,
    };
  const aheadMs = now.getTime() - row.seenAt.getTime();
  const next = { ...row, seenAt: now };
  // A drop in the future, by a wrong clock, does not count for the time after it.
  if (row.droppedOn !== null && row.droppedOn > today) next.droppedOn = today;
  if (aheadMs > dayMs) return { ...next, jumpedFrom: row.jumpedFrom ?? row.seenAt, jumpedAt: now };
  if (row.jumpedAt === null) return next;
  const isOver = now < row.jumpedAt || now.getTime() - row.jumpedAt.getTime() >= dayMs;
  return isOver ? { ...next, jumpedFrom: null, jumpedAt: null } : next;
};

const dayOf = (time: Date): Date => new Date(Math.floor(time.getTime() / dayMs) * dayMs);

/** Records that the database's clock is at `now`, and returns the pause that this begins or continues. */
export const recordClock = (db: Database, now: Date): Promise<RetentionPause | null> =>
  db.transaction(async (tx) => {
    // Two cores at the first start both insert it; one waits for the other.
    await tx.insert(retentionClock).values(seeClock(undefined, now)).onConflictDoNothing();
    const [row] = await tx.select().from(retentionClock).for("update");
    const next = seeClock(row, now);
    await tx.update(retentionClock).set(next);
    return pauseOf(next);
  });

const pauseOf = ({ jumpedFrom, jumpedAt }: RetentionRow): RetentionPause | null =>
  jumpedFrom === null || jumpedAt === null ? null : pauseBetween(jumpedFrom, jumpedAt);

/** Reports whether a day's data may be dropped now. The transaction that drops it uses up the limit of this day. */
export const claimDrop = async (tx: Executor, now: Date): Promise<boolean> => {
  const today = dayOf(now);
  const mayDrop = or(
    isNull(retentionClock.droppedOn),
    lt(retentionClock.droppedOn, today),
    lt(retentionClock.seenAt, retentionClock.confirmedUntil),
  );
  const claimed = await tx
    .update(retentionClock)
    .set({ droppedOn: today })
    .where(and(eq(retentionClock.singleton, true), isNull(retentionClock.jumpedAt), mayDrop))
    .returning({ singleton: retentionClock.singleton });
  return claimed.length > 0;
};

/**
 * Ends a pause, and suspends the limit of one day's data for a day, because the database's clock `now` is right. Returns the ended pause.
 */
export const confirmClock = (tx: Executor, now: Date): Promise<RetentionPause | null> =>
  findRetentionPause(tx).then(async (pause) => {
    const confirmed = {
      ...seeClock(undefined, now),
      droppedOn: null,
      confirmedUntil: new Date(now.getTime() + dayMs),
    };
    const target = retentionClock.singleton;
    await tx
      .insert(retentionClock)
      .values(confirmed)
      .onConflictDoUpdate({ target, set: confirmed });
    return pause;
  });
