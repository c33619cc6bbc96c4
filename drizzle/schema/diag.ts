import { sql } from "drizzle-orm";
import { index } from "drizzle-orm/pg-core";
import type { DiagRefusal } from "#proto/management/diag.ts";
import { nullable, table, timestamp, uuid } from "./columns.ts";
import { collectorIdentity } from "./enrollment.ts";

/** A diagnostics bundle that an admin has requested of a host. A job deletes it after a day, answered or not. */
export const hostDiag = table(
  "host_diag",
  {
    id: uuid().primaryKey(),
    identityId: uuid().references(() => collectorIdentity.id),
    requestedAt: timestamp(),
    requestedBy: uuid(),
    /** Core accepts an answer until then. */
    answerBy: timestamp(),
    answeredAt: nullable.timestamp(),
    /** JSON, as the host sent it. An answer has either a bundle or a refusal. */
    bundle: nullable.text(),
    refusal: nullable.text().$type<DiagRefusal>(),
  },
  (columns) => [
    index("host_diag_open").on(columns.identityId).where(sql`${columns.answeredAt} is null`),
    index("host_diag_requested").on(columns.requestedAt),
  ],
);
