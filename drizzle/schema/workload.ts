import { pgTable, text, unique, uuid } from "drizzle-orm/pg-core";
import { timestamp } from "./columns.ts";

/** A subject of an issuer that has exchanged a token: the actor of what it does. Its scopes are in the issuers' file. */
export const workload = pgTable(
  "workload",
  {
    id: uuid("id").primaryKey(),
    issuer: text("issuer").notNull(),
    subject: text("subject").notNull(),
    firstSeenAt: timestamp("first_seen_at").notNull(),
    lastSeenAt: timestamp("last_seen_at").notNull(),
  },
  (table) => [unique("workload_subject").on(table.issuer, table.subject)],
);
