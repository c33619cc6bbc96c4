import { asc, desc, eq, gt, inArray, sql } from "drizzle-orm";
import { auditChain, auditEvent, auditPending } from "../../drizzle/schema/audit.ts";
import type { Executor } from "./database.ts";

/** A link of the chain. */
export type AuditLink = typeof auditChain.$inferSelect;

// Any constant works, as long as every core of a database takes the same.
const appenderLockKey = 7_303_014_592_618_312n;

/** Takes the appender's place until the transaction ends; false while another core has it. */
export const tryLockAppender = async (db: Executor): Promise<boolean> => {
  const [row] = await db.execute<{ locked: boolean }>(
    sql`select pg_try_advisory_xact_lock(${appenderLockKey.toString()}::bigint) as locked`,
  );
  return row?.locked ?? false;
};

/** The newest link; undefined before the first. */
export const findHead = async (db: Executor): Promise<AuditLink | undefined> => {
  const [row] = await db.select().from(auditChain).orderBy(desc(auditChain.seq)).limit(1);
  return row;
};

/** Committed events that have no place in the chain yet, oldest first. */
export const findPendingEvents = (db: Executor, limit: number) =>
  db
    .select({ event: auditEvent })
    .from(auditPending)
    .innerJoin(auditEvent, eq(auditEvent.id, auditPending.eventId))
    .orderBy(asc(auditEvent.occurredAt), asc(auditEvent.id))
    .limit(limit);

/** Appends links, and takes their events off the pending ones. */
export const insertLinks = async (db: Executor, links: readonly AuditLink[]): Promise<void> => {
  await db.insert(auditChain).values([...links]);
  await db.delete(auditPending).where(
    inArray(
      auditPending.eventId,
      links.map((link) => link.eventId),
    ),
  );
};

/** The links after a place with their events, in order; an event that is gone is null. */
export const findLinksAfter = (db: Executor, seq: number, limit: number) =>
  db
    .select({ link: auditChain, event: auditEvent })
    .from(auditChain)
    .leftJoin(auditEvent, eq(auditEvent.id, auditChain.eventId))
    .where(gt(auditChain.seq, seq))
    .orderBy(asc(auditChain.seq))
    .limit(limit);

/** How many events are in the log without being chained or waiting for it: written around the product. */
export const countUnchainedEvents = async (db: Executor): Promise<number> => {
  const [row] = await db.execute<{ count: string }>(sql`
    select count(*) from audit_event e
    where not exists (select from audit_chain c where c.event_id = e.id)
      and not exists (select from audit_pending p where p.event_id = e.id)`);
  return Number(row?.count ?? 0);
};
