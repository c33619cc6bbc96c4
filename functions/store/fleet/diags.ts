import { and, desc, eq, gt, isNull, lt } from "drizzle-orm";
import { hostDiag } from "#drizzle/schema/diag.ts";
import type { Executor } from "../database/database.ts";
import { firstRow, inserterOf } from "../database/statements.ts";

/** A requested diagnostics bundle. */
export type DiagRow = typeof hostDiag.$inferSelect;

/** Inserts a request. */
export const insertDiag = inserterOf(hostDiag);

/** Selects the requests that their hosts may still answer. */
const isOpen = (at: Date) => and(isNull(hostDiag.answeredAt), gt(hostDiag.answerBy, at));

/** Finds the newest request that a host may still answer at `at`. */
export const findOpenDiag = (
  db: Executor,
  { identityId, at }: { identityId: string; at: Date },
): Promise<DiagRow | undefined> =>
  firstRow(
    db
      .select()
      .from(hostDiag)
      .where(and(isOpen(at), eq(hostDiag.identityId, identityId)))
      .orderBy(desc(hostDiag.requestedAt)),
  );

/** Finds a request of a host that was made after `after`. */
export const findDiag = (
  db: Executor,
  { id, identityId, after }: { id: string; identityId: string; after: Date },
): Promise<DiagRow | undefined> =>
  firstRow(
    db
      .select()
      .from(hostDiag)
      .where(
        and(
          eq(hostDiag.id, id),
          eq(hostDiag.identityId, identityId),
          gt(hostDiag.requestedAt, after),
        ),
      ),
  );

/** Stores the answer to a request that its host may still answer. Returns whether there was one. */
export const updateDiagAnswered = async (
  db: Executor,
  {
    id,
    identityId,
    ...answer
  }: Pick<DiagRow, "id" | "identityId" | "bundle" | "refusal"> & { answeredAt: Date },
): Promise<boolean> => {
  const updated = await db
    .update(hostDiag)
    .set(answer)
    .where(and(eq(hostDiag.id, id), eq(hostDiag.identityId, identityId), isOpen(answer.answeredAt)))
    .returning({ id: hostDiag.id });
  return updated.length > 0;
};

/** Deletes the requests made before `before`, with their bundles. Returns how many. */
export const deleteDiagsBefore = async (db: Executor, before: Date): Promise<number> =>
  (await db.delete(hostDiag).where(lt(hostDiag.requestedAt, before)).returning({ id: hostDiag.id }))
    .length;
