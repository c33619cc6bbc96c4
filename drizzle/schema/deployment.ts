import { jsonb } from "drizzle-orm/pg-core";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import type { PartState } from "#proto/system/report.ts";
import {
  bigint,
  integer,
  nullable,
  primaryKeyOf,
  singleRowTable,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/** One row: the deployment that this database belongs to. A core with another SVC_TENANT_ID refuses to start. */
export const deployment = singleRowTable("deployment", {
  tenantId: uuid(),
  createdAt: timestamp(),
});

/**
 * One row: where the database was when a core last used it, so that the next one notices that it is a restored backup. A migration that
 * rewrites this table would look like a loaded dump.
 */
export const databaseLineage = singleRowTable("database_lineage", {
  /** Number of restores that core has noticed. */
  epoch: integer(),
  /** The transaction that wrote this row. A dump restores the number, but in a transaction of its own. */
  writtenXid: bigint(),
  /** Null where core's role may not read it. */
  systemIdentifier: nullable.text(),
  databaseOid: text(),
  /** Null where core's role may not read it. */
  timeline: nullable.integer(),
  /** When core last noticed a restore, by core's clock, and how; null if never. */
  restoredAt: nullable.timestamp(),
  reason: nullable.text(),
});

/** A time in which one core could receive, by the database's clock. The core extends its row every few seconds while it is ready. */
export const coreSession = table("core_session", {
  id: uuid().primaryKey(),
  startedAt: timestamp(),
  /** Until when it could receive, as far as it has written. */
  receivedUntil: timestamp(),
  /** It reads `fleet_status`; null of a core of a previous version, which reads the columns of `fleet_host` alone. */
  readsStatus: nullable.boolean(),
  /** It reads digests of stored bytes; null of a core of a previous version, which would call such a block damaged. */
  readsStoredDigests: nullable.boolean(),
});

/** A time in which no core could receive, or that the database's clock skipped. It counts against no host. */
export const coreOutage = table("core_outage", {
  id: uuid().primaryKey(),
  beganAt: timestamp(),
  endedAt: timestamp(),
});

/** A result of one of core's readiness checks. */
export interface ReportedCheck {
  /** The readiness endpoint that runs it: core, ingest or licensing. */
  endpoint: string;
  name: string;
  status: PartState;
  detail: string;
  /** RFC 3339: since when it has this status. */
  since: string;
}

/** A credential that a core uses (proto/system/credentials.ts). */
interface ReportedCredential {
  name: string;
  /** RFC 3339: when what needs it stops; null without an end. */
  endsAt: string | null;
  /** Its certificates, or its token, by their ends. */
  parts: readonly { subject: string | null; endsAt: string }[];
  /** RFC 3339: when the newest of its files was written. */
  changedAt: string | null;
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
  /** When its credentials end, by name: RFC 3339. */
  certificates: jsonb().$type<Readonly<Record<string, string>>>().notNull(),
  /** Null of a core of a previous version. */
  credentials: jsonb().$type<readonly ReportedCredential[]>(),
});

/** One row: when retention last saw the database's clock, by that clock, and the jump that holds retention back. */
export const retentionClock = singleRowTable("retention_clock", {
  seenAt: timestamp(),
  /** The last time before a jump of more than a day, and the first after it; null while retention is not paused. */
  jumpedFrom: nullable.timestamp(),
  jumpedAt: nullable.timestamp(),
  /** The UTC day on which data was dropped last. */
  droppedOn: nullable.timestamp(),
  /** Until then an operator lets more than one day of data be dropped on a day. */
  confirmedUntil: nullable.timestamp(),
});

/** The authorities that core has published for hosts, by channel. A higher number is newer; numbers may be missing. */
export const caBundle = table(
  "ca_bundle",
  {
    channel: text().$type<CaChannel>(),
    number: integer(),
    /** The SHA-256 of `pem`, in hex. */
    sha256: text(),
    pem: text(),
    publishedAt: timestamp(),
  },
  (columns) => [primaryKeyOf(columns.channel, columns.number)],
);
