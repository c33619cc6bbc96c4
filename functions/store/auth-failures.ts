import { and, eq, isNull, lte, or } from "drizzle-orm";
import { collectorIdentity } from "../../drizzle/schema/certificate.ts";
import type { Executor } from "./database.ts";

/** Keeps a failure unless one was kept after `due`; gives the identity's id if it did. */
export const updateAuthFailure = async (
  db: Executor,
  { identity, reason, at, due }: { identity: string; reason: string; at: Date; due: Date },
): Promise<string | undefined> => {
  const { lastAuthFailureAt } = collectorIdentity;
  const [row] = await db
    .update(collectorIdentity)
    .set({ lastAuthFailureAt: at, lastAuthFailureReason: reason })
    .where(and(eq(collectorIdentity.identity, identity), or(isNull(lastAuthFailureAt), lte(lastAuthFailureAt, due))))
    .returning({ id: collectorIdentity.id });
  return row?.id;
};
