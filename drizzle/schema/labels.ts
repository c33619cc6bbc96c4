import { sql } from "drizzle-orm";
import { check, index, integer, jsonb, pgTable } from "drizzle-orm/pg-core";
import type { Labels } from "../../proto/labels.ts";
import { bytea } from "./columns.ts";

/** The id of the label set without labels, which always exists. */
export const noLabels = 0;

/**
 * Every set of labels that a host has, once: hosts refer to a set by a number, so that their rows stay narrow, and a filter by a label
 * decides once for each set instead of for each host. `drizzle/sql/label-sets.sql` writes it; a job deletes sets that no host has any more.
 */
export const labelSet = pgTable(
  "label_set",
  {
    id: integer("id").primaryKey().generatedByDefaultAsIdentity(),
    /** Of the text of `labels`, which is the same for equal sets. */
    sha256: bytea("sha256").notNull().unique("label_set_sha256"),
    labels: jsonb("labels").$type<Labels>().notNull(),
  },
  (table) => [
    index("label_set_labels").using("gin", sql`${table.labels} jsonb_path_ops`),
    check("label_set_none", sql`(${table.id} = ${sql.raw(String(noLabels))}) = (${table.labels} = '{}'::jsonb)`),
  ],
);
