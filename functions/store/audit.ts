import { auditEvent } from "../../drizzle/schema/audit.ts";
import type { Executor } from "./database.ts";

/** A row of the audit log as it is inserted. */
export type AuditEventRow = typeof auditEvent.$inferInsert;

/** Appends to the audit log, in the transaction of the change. */
export const insertAuditEvent = async (db: Executor, row: AuditEventRow): Promise<void> => {
  await db.insert(auditEvent).values(row);
};
