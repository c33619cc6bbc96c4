import { asc, eq } from "drizzle-orm";
import { exportDeadLetter } from "../../drizzle/schema/export.ts";
import type { Database } from "./database.ts";

/** A dead letter as the table has it. */
export type StoredDeadLetter = typeof exportDeadLetter.$inferSelect;

const pageRows = 100;

/** Calls `visit` with each dead letter of an export, the oldest first; reads a page at a time. */
export const eachDeadLetter = async (
  db: Database,
  name: string,
  visit: (letter: StoredDeadLetter) => void,
): Promise<void> => {
  for (let offset = 0; ; offset += pageRows) {
    const page = await db
      .select()
      .from(exportDeadLetter)
      .where(eq(exportDeadLetter.name, name))
      .orderBy(asc(exportDeadLetter.id))
      .limit(pageRows)
      .offset(offset);
    for (const letter of page) visit(letter);
    if (page.length < pageRows) return;
  }
};
