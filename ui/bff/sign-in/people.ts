import { and, eq } from "drizzle-orm";
import { authenticationIdentity, person } from "../../../drizzle/schema/operator.ts";
import type { Database } from "../web.ts";

/**
 * The person whom the provider's subject stands for in this deployment, whatever their status; undefined when the directory has
 * none. Selects from `authentication_identity` and `person`, the only tables that web may read.
 */
export const findPersonBySubject = async (
  db: Database,
  { tenantId, subject }: { tenantId: string; subject: string },
) => {
  const [row] = await db
    .select({ userId: person.userId, displayName: person.displayName, status: person.status })
    .from(authenticationIdentity)
    .innerJoin(person, eq(person.userId, authenticationIdentity.userId))
    .where(and(eq(authenticationIdentity.tenantId, tenantId), eq(authenticationIdentity.subject, subject)))
    .limit(1);
  return row;
};
