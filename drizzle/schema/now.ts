import { nullable, table, text, timestamp, uuid } from "./columns.ts";

/** Claims on lines of *Now*: each names the person who works on a line. */
export const lineClaim = table("line_claim", {
  id: uuid().primaryKey(),
  /** The key of the line (proto/now/report.ts). */
  key: text().unique("line_claim_key"),
  takenAt: timestamp(),
  /** As the audit log shows the person. */
  takenBy: text(),
  note: nullable.text(),
  /** Since when core has found no such line; null while there is one. */
  goneSince: nullable.timestamp(),
});
