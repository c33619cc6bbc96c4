import { and, asc, desc, eq, gt, gte, inArray, lt, or, sql } from "drizzle-orm";
import { auditChain, auditEvent, auditPending } from "../../drizzle/schema/audit.ts";
import { certificate } from "../../drizzle/schema/certificate.ts";
import type { Executor } from "./database.ts";
import { insertRows, type PageRequest, paged, pageOf } from "./query-parts.ts";

/** A row of the audit log as it is inserted. */
export type AuditEventRow = typeof auditEvent.$inferInsert;

/** Inserts events, in the transaction of the change; the appender links them into the hash chain afterwards. */
export const insertAuditEvents = async (db: Executor, rows: readonly AuditEventRow[]): Promise<void> => {
  const pending = rows.map(({ id }) => ({ eventId: id }));
  await Promise.all([insertRows(db, auditEvent, rows), insertRows(db, auditPending, pending)]);
};

/** Returns whether an action was recorded on a target after `since`. */
export const hasAuditEventSince = async (
  db: Executor,
  { action, targetId, since }: { action: string; targetId: string; since: Date },
): Promise<boolean> => {
  const rows = await db
    .select({ id: auditEvent.id })
    .from(auditEvent)
    .where(and(eq(auditEvent.targetId, targetId), eq(auditEvent.action, action), gt(auditEvent.occurredAt, since)))
    .limit(1);
  return rows.length > 0;
};

/** Selects events; an absent part does not filter. */
export interface AuditFilter {
  action?: string;
  /** The actor's id, or the name that the log shows. */
  actor?: string;
  targetId?: string;
  since?: Date;
  until?: Date;
}

/** Returns one page of the log, newest first. An event that is not chained yet has a null link. */
export const listAuditEvents = async (db: Executor, filter: AuditFilter, page: PageRequest) => {
  const { action, actor, targetId, since, until } = filter;
  const { where, orderBy, limit } = pageOf(auditEvent.id, page, [
    action === undefined ? undefined : eq(auditEvent.action, action),
    actor === undefined ? undefined : or(eq(auditEvent.actorId, actor), eq(auditEvent.actorDisplay, actor)),
    targetId === undefined ? undefined : eq(auditEvent.targetId, targetId),
    since && gte(auditEvent.occurredAt, since),
    until && lt(auditEvent.occurredAt, until),
  ]);
  const rows = await db
    .select({ event: auditEvent, link: auditChain })
    .from(auditEvent)
    .leftJoin(auditChain, eq(auditChain.eventId, auditEvent.id))
    .where(where)
    .orderBy(orderBy)
    .limit(limit);
  return paged(
    rows.map(({ event, link }) => ({ ...event, link })),
    page,
  );
};

/** An event of a list, with its link. */
export type ListedAuditEvent = Awaited<ReturnType<typeof listAuditEvents>>["rows"][number];

/** Finds the newest events of an identity and its certificates, newest first. */
export const findCollectorEvents = (db: Executor, identityId: string, limit: number) => {
  const own = db
    .select({ id: sql`${certificate.id}::text` })
    .from(certificate)
    .where(eq(certificate.identityId, identityId));
  return db
    .select()
    .from(auditEvent)
    .where(or(eq(auditEvent.targetId, identityId), inArray(auditEvent.targetId, own)))
    .orderBy(desc(auditEvent.id))
    .limit(limit);
};

/** An event of a collector. */
export type CollectorEvent = Awaited<ReturnType<typeof findCollectorEvents>>[number];

/** A link of the hash chain. */
export type AuditLink = typeof auditChain.$inferSelect;

// Any constant works if all cores of a database use the same.
const appenderLockKey = 7_303_014_592_618_312n;

/** Acquires the appender's lock until the transaction ends. Returns false while another core has it. */
export const tryLockAppender = async (db: Executor): Promise<boolean> => {
  const [row] = await db.execute<{ locked: boolean }>(
    sql`select pg_try_advisory_xact_lock(${appenderLockKey.toString()}::bigint) as locked`,
  );
  return row?.locked ?? false;
};

/** Finds the newest link. */
export const findHead = async (db: Executor): Promise<AuditLink | undefined> => {
  const [row] = await db.select().from(auditChain).orderBy(desc(auditChain.seq)).limit(1);
  return row;
};

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
  await db.insert(auditChain).values([...links]);
  await db.delete(auditPending).where(
    inArray(
      auditPending.eventId,
      links.map((link) => link.eventId),
    ),
  );
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

/** Counts the events that are neither chained nor pending: core did not write them. */
export const countUnchainedEvents = async (db: Executor): Promise<number> => {
  const [row] = await db.execute<{ count: string }>(sql`
    select count(*) from audit_event e
    where not exists (select from audit_chain c where c.event_id = e.id)
      and not exists (select from audit_pending p where p.event_id = e.id)`);
  return Number(row?.count ?? 0);
};
