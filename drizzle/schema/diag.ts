import { sql } from "drizzle-orm";
import { index, pgTable, text, uuid } from "drizzle-orm/pg-core";
import type { DiagRefusal } from "../../proto/management/diag.ts";
import { collectorIdentity } from "./certificate.ts";
import { timestamp } from "./columns.ts";

/** A diagnostics bundle that an admin has requested of a host. A job deletes it after a day, answered or not. */
export const hostDiag = pgTable(
  "host_diag",
  {
    id: uuid("id").primaryKey(),
    identityId: uuid("identity_id")
      .notNull()
      .references(() => collectorIdentity.id),
    requestedAt: timestamp("requested_at").notNull(),
    requestedBy: uuid("requested_by").notNull(),
    /** Core accepts an answer until then. */
    answerBy: timestamp("answer_by").notNull(),
    answeredAt: timestamp("answered_at"),
    /** JSON, as the host sent it. An answer has either a bundle or a refusal. */
    bundle: text("bundle"),
    refusal: text("refusal").$type<DiagRefusal>(),
  },
  (table) => [
    index("host_diag_open").on(table.identityId).where(sql`${table.answeredAt} is null`),
    index("host_diag_requested").on(table.requestedAt),
  ],
);
