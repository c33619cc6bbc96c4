/** Finds the callers of core: people, directly or by a session, and workloads. */
import { and, eq, exists, gt, isNull, not, type SQLWrapper } from "drizzle-orm";
import { endedWebSession, operatorSession, person, workload } from "#drizzle/schema/operator.ts";
import type { Executor } from "../database/database.ts";

/** A workload that has exchanged a token. */
type WorkloadRow = typeof workload.$inferSelect;

/** Finds the person with this user id, of any status. */
export const findPerson = async (db: Executor, userId: string) => {
  const [row] = await db.select().from(person).where(eq(person.userId, userId)).limit(1);
  return row;
};

const selectEnded = (db: Executor, webSessionId: string | SQLWrapper) =>
  db.select().from(endedWebSession).where(eq(endedWebSession.id, webSessionId));

/** Returns the condition that a web session has ended before it expired. */
export const whereWebSessionEnded = (db: Executor, webSessionId: string | SQLWrapper) =>
  exists(selectEnded(db, webSessionId));

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
        not(whereWebSessionEnded(db, operatorSession.webSessionId)),
      ),
    )
    .limit(1);
  return row?.person;
};

/** Reports whether a web session has ended before it expired. */
export const isWebSessionEnded = async (db: Executor, id: string): Promise<boolean> =>
  (await selectEnded(db, id)).length > 0;

/** Finds a person, unless the web session for which web calls has ended. */
export const findWebSessionPerson = async (
  db: Executor,
  { webSessionId, userId }: { webSessionId: string; userId: string },
) => {
  const [row] = await db
    .select()
    .from(person)
    .where(and(eq(person.userId, userId), not(whereWebSessionEnded(db, webSessionId))))
    .limit(1);
  return row;
};

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
  if (stored === undefined) throw new Error("the upsert of a workload returned no row");
  return stored;
};

/** Finds a workload by its id. */
export const findWorkload = async (db: Executor, id: string): Promise<WorkloadRow | undefined> => {
  const [row] = await db.select().from(workload).where(eq(workload.id, id)).limit(1);
  return row;
};
