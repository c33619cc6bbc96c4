import { jsonb } from "drizzle-orm/pg-core";
import { integer, nullable, table, text, timestamp, uuid } from "./columns.ts";

/** A result of one of core's readiness checks. */
export interface ReportedCheck {
  /** The readiness endpoint that runs it: core, ingest or licensing. */
  endpoint: string;
  name: string;
  status: "ready" | "not_ready" | "disabled";
  detail: string;
  /** RFC 3339: since when it has this status. */
  since: string;
}

/** The newest report of each core, which it writes every few seconds. Another core deletes it a day after the last one. */
export const coreReport = table("core_report", {
  /** Identifies the process, not the machine. */
  id: uuid().primaryKey(),
  machine: text(),
  version: text(),
  startedAt: timestamp(),
  reportedAt: timestamp(),
  /** When it was told to stop; null while it was not. */
  stoppedAt: nullable.timestamp(),
  /** The Forward streams that are open; null without ingest. */
  streams: nullable.integer(),
  clockAheadMs: integer(),
  checks: jsonb().$type<readonly ReportedCheck[]>().notNull(),
  /** When its certificates expire, by name: RFC 3339. */
  certificates: jsonb().$type<Readonly<Record<string, string>>>().notNull(),
});
