import { and, asc, count, desc, eq, gt, inArray, lt, type SQL, sql } from "drizzle-orm";
import { type AnyPgColumn, getTableConfig, type PgTable } from "drizzle-orm/pg-core";
import {
  auditChain,
  auditEvent,
  auditPending,
  auditVerification,
  refusalCount,
} from "#drizzle/schema/audit.ts";
import type { Executor } from "../database/database.ts";
import { anyOf, firstRow, hasRows, insertRows, readScalar } from "../database/statements.ts";

/** A row of the audit log as it is inserted. */
export type AuditEventRow = typeof auditEvent.$inferInsert;

/** Inserts events, in the transaction of the change; the appender links them into the hash chain afterwards. */
export const insertAuditEvents = async (db: Executor, rows: readonly AuditEventRow[]) => {
  const pending = rows.map(({ id }) => ({ eventId: id }));
  await Promise.all([insertRows(db, auditEvent, rows), insertRows(db, auditPending, pending)]);
};

/** Reports whether an action was recorded on a target after `since`. */
export const hasAuditEventSince = (
  db: Executor,
  { action, targetId, since }: { action: string; targetId: string; since: Date },
): Promise<boolean> =>
  hasRows(
    db
      .select({ id: auditEvent.id })
      .from(auditEvent)
      .where(
        and(
          eq(auditEvent.targetId, targetId),
          eq(auditEvent.action, action),
          gt(auditEvent.occurredAt, since),
        ),
      )
      .limit(1),
  );

/** A link of the hash chain. */
export type AuditLink = typeof auditChain.$inferSelect;

/** Finds the newest link. */
export const findHead = (db: Executor): Promise<AuditLink | undefined> =>
  firstRow(db.select().from(auditChain).orderBy(desc(auditChain.seq)).limit(1));

/** Finds committed events that are not chained yet, oldest first. */
export const findPendingEvents = (db: Executor, limit: number) =>
  db
    .select({ event: auditEvent })
    .from(auditPending)
    .innerJoin(auditEvent, eq(auditEvent.id, auditPending.eventId))
    .orderBy(asc(auditEvent.occurredAt), asc(auditEvent.id))
    .limit(limit);

/** Inserts links and removes their events from the pending ones. */
export const insertLinks = async (db: Executor, links: readonly AuditLink[]) => {
  const eventIds = links.map((link) => link.eventId);
  const chained = db.delete(auditPending).where(anyOf(auditPending.eventId, eventIds));
  await Promise.all([
    insertRows(db, auditChain, links),
    chained.prepare("delete_pending").execute(),
  ]);
};

/** Finds the links after `seq` with their events, in order. A deleted event is null. */
export const findLinksAfter = (db: Executor, seq: number, limit: number) =>
  db
    .select({ link: auditChain, event: auditEvent })
    .from(auditChain)
    .leftJoin(auditEvent, eq(auditEvent.id, auditChain.eventId))
    .where(gt(auditChain.seq, seq))
    .orderBy(asc(auditChain.seq))
    .limit(limit);

/** A link with its event. */
export type LinkedEvent = Awaited<ReturnType<typeof findLinksAfter>>[number];

/** Finds a link. */
export const findLink = (db: Executor, seq: number): Promise<AuditLink | undefined> =>
  firstRow(db.select().from(auditChain).where(eq(auditChain.seq, seq)));

/** Counts the events that are not chained yet, up to `max`. */
export const countPendingEvents = (db: Executor, max: number): Promise<number> =>
  readScalar(
    db,
    Number,
    sql`select count(*) from (select from audit_pending limit ${max}) pending`,
  );

/**
 * Counts the committed events. Reads one snapshot: one transaction links an event and deletes it from the pending ones, so that none counts
 * twice.
 */
export const countAuditEvents = (db: Executor): Promise<number> =>
  readScalar(
    db,
    Number,
    sql`select coalesce((select max(seq) from audit_chain), 0) + (select count(*) from audit_pending)`,
  );

/** The verified part of the chain. */
export type AuditVerificationRow = Omit<typeof auditVerification.$inferSelect, "singleton">;

/** Finds the verified part of the chain; undefined before the first check. */
export const findVerification = (db: Executor): Promise<AuditVerificationRow | undefined> =>
  firstRow(db.select().from(auditVerification));

/** Inserts the row before the first check, then locks it until the transaction ends. Returns undefined while another core has locked it. */
export const tryLockVerification = async (
  db: Executor,
  first: AuditVerificationRow,
): Promise<AuditVerificationRow | undefined> => {
  await db.insert(auditVerification).values(first).onConflictDoNothing();
  return firstRow(db.select().from(auditVerification).for("update", { skipLocked: true }));
};

/** Stores the verified part of the chain. */
export const updateVerification = async (db: Executor, row: AuditVerificationRow) => {
  await db.update(auditVerification).set(row);
};

/** Counts the events that are neither chained nor pending: core did not write them. */
export const countUnchainedEvents = (db: Executor): Promise<number> =>
  readScalar(
    db,
    Number,
    sql`
    select count(*) from audit_event e
    where not exists (select from audit_chain c where c.event_id = e.id)
      and not exists (select from audit_pending p where p.event_id = e.id)`,
  );

/** A table with the number of refusals of each minute and address. */
type CountTable = PgTable & Record<CountColumn, AnyPgColumn>;
type CountColumn = "addressKey" | "minuteStartedAt" | "refusals" | "lastAt";

/** The row of a count. */
interface CountRow {
  addressKey: string;
  refusals: number;
}

/**
 * Creates the functions of a table of counts. `within` selects the counts of the minute of a row, and `keyOf` returns what distinguishes them.
 * A count adds to the limit of its minute unless another one has the same `knownBy`.
 */
export const refusalCountsOf = <Row extends CountRow>(
  table: CountTable & { $inferSelect: Row },
  {
    within,
    keyOf,
    knownBy = keyOf,
  }: {
    within(row: Row): SQL | undefined;
    keyOf(row: Row): string;
    knownBy?: (row: Row) => string;
  },
) => {
  const target = getTableConfig(table).primaryKeys[0]?.columns ?? [];
  const added = {
    refusals: sql`${table.refusals} + excluded.refusals`,
    lastAt: sql`greatest(${table.lastAt}, excluded.last_at)`,
  };

  /** Finds what is known of these addresses, and the number of the minute's counts, up to `countsMax`. */
  const findMinute = async (db: Executor, rows: readonly [Row, ...Row[]], countsMax: number) => {
    const inMinute = within(rows[0]);
    const addressKeys = [...new Set(rows.map(({ addressKey }) => addressKey))];
    const counted = db
      .select({ one: sql`1` })
      .from<PgTable>(table)
      .where(inMinute)
      .limit(countsMax)
      .as("counted");
    const [found, [total]] = await Promise.all([
      db
        .select()
        .from<PgTable>(table)
        .where(and(inMinute, anyOf(table.addressKey, addressKeys))),
      db.select({ counts: count() }).from(counted),
    ]);
    return { known: new Set((found as Row[]).map(knownBy)), counts: total?.counts ?? 0 };
  };

  return {
    /**
     * Adds refusals of one minute to their counts, which stay locked until the transaction ends: each to its own, or to the shared one once the
     * minute has `countsMax`. Returns how it counted each, and whether that began the count. Locks in the order of keys, so that cores cannot
     * deadlock.
     */
    add: async (
      db: Executor,
      refusals: readonly { own: Row; shared: Row }[],
      countsMax: number,
    ): Promise<{ isOwn: boolean; isFirst: boolean }[]> => {
      const [first, ...others] = refusals.map(({ own }) => own);
      if (first === undefined) return [];
      let { known, counts } = await findMinute(db, [first, ...others], countsMax);
      const sums = new Map<string, Row>();
      const counted = refusals.map(({ own, shared }) => {
        if (!known.has(knownBy(own)) && counts < countsMax) {
          known.add(knownBy(own));
          counts += 1;
        }
        const isOwn = known.has(knownBy(own));
        const row = isOwn ? own : shared;
        const key = keyOf(row);
        const earlier = sums.get(key);
        sums.set(key, { ...row, refusals: row.refusals + (earlier?.refusals ?? 0) });
        return { isOwn, key, isFirst: earlier === undefined };
      });
      const ordered = [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
      const inserted = db.insert<PgTable>(table).values(ordered);
      const stored = await inserted.onConflictDoUpdate({ target, set: added }).returning();
      const totals = new Map((stored as unknown as Row[]).map((row) => [keyOf(row), row.refusals]));
      const hasBegun = (key: string) => totals.get(key) === sums.get(key)?.refusals;
      return counted.map(({ isOwn, key, isFirst }) => ({
        isOwn,
        isFirst: isFirst && hasBegun(key),
      }));
    },
    /** Deletes and returns at most `limit` counts of minutes that began before `before`. Skips those that another core has locked. */
    deleteBefore: async (db: Executor, before: Date, limit: number): Promise<Row[]> => {
      const old = db
        .select({ ctid: sql`ctid` })
        .from<PgTable>(table)
        .where(lt(table.minuteStartedAt, before))
        .limit(limit)
        .for("update", { skipLocked: true });
      const deleted = db.delete<PgTable>(table).where(inArray(sql`ctid`, old));
      return (await deleted.returning()) as unknown as Row[];
    },
  };
};

/** The refusals of one address in one minute, for one reason, that concern one target. */
export type RefusalCountRow = typeof refusalCount.$inferSelect;

/** The counts of refusals of anonymous callers. */
export const refusalCounts = refusalCountsOf<RefusalCountRow>(refusalCount, {
  within: ({ action, minuteStartedAt }) =>
    and(eq(refusalCount.action, action), eq(refusalCount.minuteStartedAt, minuteStartedAt)),
  keyOf: ({ addressKey, reasonCode, targetId }) => `${addressKey} ${reasonCode} ${targetId}`,
});
