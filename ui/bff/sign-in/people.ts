import { and, eq } from "drizzle-orm";
import { authenticationIdentity, person } from "#drizzle/schema/operator.ts";
import type { WebDatabase } from "../web.ts";

/**
 * Returns the person with the provider's subject in this deployment, of any status; undefined if the directory has none. Selects
 * from `authentication_identity` and `person`, the only tables that web may read.
 */
export const findPersonBySubject = async (
  db: WebDatabase,
  { tenantId, subject }: { tenantId: string; subject: string },
) => {
  const [row] = await db
    .select({ userId: person.userId, displayName: person.displayName, status: person.status })
    .from(authenticationIdentity)
    .innerJoin(person, eq(person.userId, authenticationIdentity.userId))
    .where(
      and(
        eq(authenticationIdentity.tenantId, tenantId),
        eq(authenticationIdentity.subject, subject),
      ),
    )
    .limit(1);
  return row;
};
