import { eq } from "drizzle-orm";
import { person } from "../../drizzle/schema/operator.ts";
import type { Executor } from "./database.ts";

/** The person with this user id, whatever the status; undefined when there is none. */
export const findPerson = async (db: Executor, userId: string) => {
  const [row] = await db.select().from(person).where(eq(person.userId, userId)).limit(1);
  return row;
};
