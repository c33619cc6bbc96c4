import type { AppliedContent } from "#proto/applied-set/applied-set.ts";
import { byteText, integer, jsonText, table, text, timestamp } from "./columns.ts";

/** What `svc-admin apply` last made of a repository's files: by it a plan tells changes by hand, and what may be deleted. */
export const appliedSet = table("applied_set", {
  name: byteText().primaryKey(),
  /** Counts the changes of the content. */
  revision: integer(),
  content: jsonText<AppliedContent>().notNull(),
  updatedAt: timestamp(),
  updatedByName: text(),
});
