import { and, asc, count, desc, eq, gt, sql } from "drizzle-orm";
import { auditChain, auditEvent, auditPending, auditVerification } from "#drizzle/schema/audit.ts";
import type { Executor } from "../database/database.ts";
import { anyOf, firstRow, hasRows, insertRows, readOne } from "../database/statements.ts";

/** A row of the audit log as it is inserted. */
export type AuditEventRow = typeof auditEvent.$inferInsert;

/** Inserts events, in the transaction of the change; the appender links them into the hash chain afterwards. */
export const insertAuditEvents = async (
  db: Executor,
  rows: readonly AuditEventRow[],
): Promise<void> => {
  const pending = rows.map(({ id }) => ({ eventId: id }));
  await Promise.all([insertRows(db, auditEvent, rows), insertRows(db, auditPending, pending)]);
};

/** Whether an action was recorded on a target after `since`. */
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
export const insertLinks = async (db: Executor, links: readonly AuditLink[]): Promise<void> => {
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
export const countPendingEvents = async (db: Executor, max: number): Promise<number> => {
  const pending = db
    .select({ id: auditPending.eventId })
    .from(auditPending)
    .limit(max)
    .as("pending");
  const [row] = await db.select({ events: count() }).from(pending);
  return row?.events ?? 0;
};

/**
 * Counts the committed events. Reads one snapshot: one transaction links an event and deletes it from the pending ones, so that none counts
 * twice.
 */
export const countAuditEvents = async (db: Executor): Promise<number> => {
  const { events } = await readOne(
    db,
    { events: Number },
    sql`
    select coalesce((select max(seq) from audit_chain), 0) + (select count(*) from audit_pending) as events`,
  );
  return events;
};

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
export const updateVerification = async (
  db: Executor,
  row: AuditVerificationRow,
): Promise<void> => {
  await db.update(auditVerification).set(row);
};

/** Counts the events that are neither chained nor pending: core did not write them. */
export const countUnchainedEvents = async (db: Executor): Promise<number> => {
  const { events } = await readOne(
    db,
    { events: Number },
    sql`
    select count(*) as events from audit_event e
    where not exists (select from audit_chain c where c.event_id = e.id)
      and not exists (select from audit_pending p where p.event_id = e.id)`,
  );
  return events;
};
