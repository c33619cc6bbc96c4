/** Finds the callers of core: people, directly or by a session, and workloads. */
import { and, eq, exists, gt, isNull, not } from "drizzle-orm";
import { endedWebSession, operatorSession, person, workload } from "#drizzle/schema/operator.ts";
import type { Executor } from "../database/database.ts";

/** Finds the person with this user id, of any status. */
export const findPerson = async (db: Executor, userId: string) => {
  const [row] = await db.select().from(person).where(eq(person.userId, userId)).limit(1);
  return row;
};

/** Whether the web session in which the person consented to a program has ended. */
export const webSessionEnded = (db: Executor) =>
  exists(
    db.select().from(endedWebSession).where(eq(endedWebSession.id, operatorSession.webSessionId)),
  );

/** Finds the person of a session that is neither revoked, alone or with its web session, nor expired at `now`; undefined without one. */
export const findSessionPerson = async (
  db: Executor,
  { sessionId, userId, now }: { sessionId: string; userId: string; now: Date },
) => {
  const [row] = await db
    .select({ person })
    .from(operatorSession)
    .innerJoin(person, eq(person.userId, operatorSession.userId))
    .where(
      and(
        eq(operatorSession.id, sessionId),
        eq(operatorSession.userId, userId),
        isNull(operatorSession.revokedAt),
        gt(operatorSession.expiresAt, now),
        not(webSessionEnded(db)),
      ),
    )
    .limit(1);
  return row?.person;
};

/** Whether a web session has ended before it expired. */
export const isWebSessionEnded = async (db: Executor, id: string): Promise<boolean> => {
  const [row] = await db.select().from(endedWebSession).where(eq(endedWebSession.id, id));
  return row !== undefined;
};

/** Finds a person, unless the web session for which web calls has ended. */
export const findWebSessionPerson = async (
  db: Executor,
  { webSessionId, userId }: { webSessionId: string; userId: string },
) => {
  const ended = db.select().from(endedWebSession).where(eq(endedWebSession.id, webSessionId));
  const [row] = await db
    .select()
    .from(person)
    .where(and(eq(person.userId, userId), not(exists(ended))))
    .limit(1);
  return row;
};

/** A workload that has exchanged a token. */
type WorkloadRow = typeof workload.$inferSelect;

/** Inserts a workload, or updates when it was last seen. Returns its row, with the id of its first exchange. */
export const upsertWorkload = async (db: Executor, row: WorkloadRow): Promise<WorkloadRow> => {
  const [stored] = await db
    .insert(workload)
    .values(row)
    .onConflictDoUpdate({
      target: [workload.issuer, workload.subject],
      set: { lastSeenAt: row.lastSeenAt },
    })
    .returning();
  return stored ?? row;
};

/** Finds a workload. */
export const findWorkload = async (db: Executor, id: string): Promise<WorkloadRow | undefined> => {
  const [row] = await db.select().from(workload).where(eq(workload.id, id)).limit(1);
  return row;
};
