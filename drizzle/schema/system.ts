import { integer, jsonb, pgTable, text, uuid } from "drizzle-orm/pg-core";
import { timestamp } from "./columns.ts";

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

/** What a core last said of itself. It writes its row every few seconds, and a day after the last time another core deletes it. */
export const coreReport = pgTable("core_report", {
  /** Of the process. */
  id: uuid("id").primaryKey(),
  machine: text("machine").notNull(),
  version: text("version").notNull(),
  startedAt: timestamp("started_at").notNull(),
  reportedAt: timestamp("reported_at").notNull(),
  /** When it was told to stop; null while it was not. */
  stoppedAt: timestamp("stopped_at"),
  /** The Forward streams that are open; null without ingest. */
  streams: integer("streams"),
  clockAheadMs: integer("clock_ahead_ms").notNull(),
  checks: jsonb("checks").$type<readonly ReportedCheck[]>().notNull(),
  /** When its certificates expire, by name: RFC 3339. */
  certificates: jsonb("certificates").$type<Readonly<Record<string, string>>>().notNull(),
});
