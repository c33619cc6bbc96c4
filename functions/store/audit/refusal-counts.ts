import { and, count, eq, inArray, lt, sql } from "drizzle-orm";
import { refusalCount } from "#drizzle/schema/audit.ts";
import type { Executor } from "../database/database.ts";
import { anyOf, insertRows } from "../database/statements.ts";

/** The refusals of one address in one minute, for one reason, that concern one target. */
export type RefusalCountRow = typeof refusalCount.$inferSelect;

/** What distinguishes the counts of one action and minute. */
type RefusalKey = Pick<RefusalCountRow, "addressKey" | "reasonCode" | "targetId">;

/** Returns the key as text. */
export const refusalKeyText = ({ addressKey, reasonCode, targetId }: RefusalKey): string =>
  `${addressKey} ${reasonCode} ${targetId}`;

/** Finds the counts of these addresses in a minute, and the number of the minute's counts, up to `countsMax`. */
export const findRefusalKeys = async (
  db: Executor,
  {
    action,
    minuteStartedAt,
    addressKeys,
  }: { action: string; minuteStartedAt: Date; addressKeys: readonly string[] },
  countsMax: number,
): Promise<{ known: Set<string>; counts: number }> => {
  const { addressKey, reasonCode, targetId } = refusalCount;
  const inMinute = and(
    eq(refusalCount.action, action),
    eq(refusalCount.minuteStartedAt, minuteStartedAt),
  );
  const counted = db
    .select({ one: sql`1` })
    .from(refusalCount)
    .where(inMinute)
    .limit(countsMax)
    .as("counted");
  const [known, [row]] = await Promise.all([
    db
      .select({ addressKey, reasonCode, targetId })
      .from(refusalCount)
      .where(and(inMinute, anyOf(addressKey, addressKeys))),
    db.select({ counts: count() }).from(counted),
  ]);
  return { known: new Set(known.map(refusalKeyText)), counts: row?.counts ?? 0 };
};

/**
 * Adds refusals of one action and minute to their counts, which stay locked until the transaction ends. Returns which counts began. Locks
 * in the order of keys, so that cores cannot deadlock.
 */
export const addRefusalCounts = async (
  db: Executor,
  rows: readonly RefusalCountRow[],
): Promise<Set<string>> => {
  const { refusals, lastAt } = refusalCount;
  const ordered = rows.toSorted((a, b) => (refusalKeyText(a) < refusalKeyText(b) ? -1 : 1));
  const stored = await insertRows(
    db,
    refusalCount,
    ordered,
    sql`on conflict (action, minute_started_at, address_key, reason_code, target_id) do update
      set refusals = ${refusals} + excluded.refusals, last_at = greatest(${lastAt}, excluded.last_at)
      returning address_key as "addressKey", reason_code as "reasonCode", target_id as "targetId", refusals`,
  );
  const totals = new Map(
    stored.map((row) => [refusalKeyText(row as unknown as RefusalKey), Number(row.refusals)]),
  );
  return new Set(
    ordered.filter((row) => totals.get(refusalKeyText(row)) === row.refusals).map(refusalKeyText),
  );
};

/** Deletes and returns at most `limit` counts of minutes that began before `before`. Skips those that another core has locked. */
export const deleteRefusalCounts = async (
  db: Executor,
  before: Date,
  limit: number,
): Promise<RefusalCountRow[]> => {
  const old = db
    .select({ ctid: sql`ctid` })
    .from(refusalCount)
    .where(lt(refusalCount.minuteStartedAt, before))
    .limit(limit)
    .for("update", { skipLocked: true });
  return db.delete(refusalCount).where(inArray(sql`ctid`, old)).returning();
};
