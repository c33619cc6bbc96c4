import { and, eq, gt } from "drizzle-orm";
import { auditEvent } from "../../drizzle/schema/audit.ts";
import type { Executor } from "./database.ts";

/** A row of the audit log as it is inserted. */
export type AuditEventRow = typeof auditEvent.$inferInsert;

/** Appends to the audit log, in the transaction of the change. */
export const insertAuditEvent = async (db: Executor, row: AuditEventRow): Promise<void> => {
  await db.insert(auditEvent).values(row);
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
