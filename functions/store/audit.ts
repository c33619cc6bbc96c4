import { and, desc, eq, gt, gte, inArray, lt, or, sql } from "drizzle-orm";
import { auditChain, auditEvent, auditPending } from "../../drizzle/schema/audit.ts";
import { certificate } from "../../drizzle/schema/certificate.ts";
import type { Executor } from "./database.ts";
import { insertRows } from "./insert-rows.ts";
import { type Page, paged, pageOf } from "./page.ts";

/** A row of the audit log as it is inserted. */
export type AuditEventRow = typeof auditEvent.$inferInsert;

/** Appends to the audit log, in the transaction of the change; the appender gives each event its place in the chain after it. */
export const insertAuditEvents = async (db: Executor, rows: readonly AuditEventRow[]): Promise<void> => {
  const pending = rows.map(({ id }) => ({ eventId: id }));
  await Promise.all([insertRows(db, auditEvent, rows), insertRows(db, auditPending, pending)]);
};

/** Whether an action was recorded on a target after a moment. */
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

/** Which events to list; absent means any. */
export interface AuditFilter {
  action?: string;
  /** The actor's id, or the name that the log shows. */
  actor?: string;
  targetId?: string;
  since?: Date;
  until?: Date;
}

/** One page of the log, newest first; an event that has no place in the chain yet has no link. */
export const listAuditEvents = async (db: Executor, filter: AuditFilter, page: Page) => {
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

/** The newest events of an identity and its certificates, newest first. */
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
