import { integer, pgTable, text } from "drizzle-orm/pg-core";
import type { AppliedContent } from "../../proto/applied-set/applied-set.ts";
import { byteText, jsonText, timestamp } from "./columns.ts";

/** What `svc-admin apply` last made of a repository's files: by it a plan tells changes by hand, and what may be deleted. */
export const appliedSet = pgTable("applied_set", {
  name: byteText("name").primaryKey(),
  /** Counts the changes of the content. */
  revision: integer("revision").notNull(),
  content: jsonText<AppliedContent>("content").notNull(),
  updatedAt: timestamp("updated_at").notNull(),
  updatedByName: text("updated_by_name").notNull(),
});
