import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  index,
  jsonb,
  pgTable,
  primaryKey,
  text,
  uuid,
} from "drizzle-orm/pg-core";
import { bytea, timestamp } from "./columns.ts";

/** The kind of actor of an event. */
export type ActorType = "operator" | "workload" | "collector" | "system";

/**
 * The audit log. An event is inserted in the transaction of the change that it records, and never updated or deleted. Ids sort by time:
 * with an index for each filter that ends in the id, a page reads only as many entries as it returns.
 */
export const auditEvent = pgTable(
  "audit_event",
  {
    id: uuid("id").primaryKey(),
    occurredAt: timestamp("occurred_at").notNull(),
    actorType: text("actor_type").$type<ActorType>().notNull(),
    actorId: text("actor_id").notNull(),
    actorDisplay: text("actor_display").notNull(),
    action: text("action").notNull(),
    targetType: text("target_type").notNull(),
    targetId: text("target_id").notNull(),
    outcome: text("outcome").$type<"success" | "failure">().notNull(),
    reasonCode: text("reason_code"),
    reason: text("reason"),
    remoteAddr: text("remote_addr"),
    requestId: text("request_id"),
    details: jsonb("details").$type<Record<string, unknown>>().notNull(),
  },
  (table) => [
    index("audit_event_time").on(table.occurredAt, table.id),
    index("audit_event_target").on(table.targetId, table.id),
    index("audit_event_action").on(table.action, table.id),
    index("audit_event_actor").on(table.actorId, table.action, table.id),
    index("audit_event_actor_display").on(table.actorDisplay, table.action, table.id),
    index("audit_event_failure").on(table.id).where(sql`${table.outcome} = 'failure'`),
  ],
);

/** Events without a link in the hash chain yet; inserted with the event. */
export const auditPending = pgTable("audit_pending", {
  eventId: uuid("event_id").primaryKey(),
});

/**
 * The order of the log and its hash chain, appended after the commit of each event. No foreign key: the link of a deleted event stays
 * and proves the deletion.
 */
export const auditChain = pgTable("audit_chain", {
  seq: bigint("seq", { mode: "number" }).primaryKey(),
  eventId: uuid("event_id").notNull().unique("audit_chain_event"),
  prevHash: bytea("prev_hash").notNull(),
  hash: bytea("hash").notNull(),
});

/** The faults that stop the verification of the chain; the sequence says where. */
export type AuditChainFaultKind = "gap" | "chain_broken" | "event_missing" | "event_edited";

/**
 * One row: how much of the chain a job has recomputed. Every event up to `seq` was compared with its link at some time between
 * `checked_since` and `checked_at`; `hash` is the hash of the last one. A fault is final and stops the job: only an administrator of the
 * database who has explained it deletes the row.
 */
export const auditVerification = pgTable(
  "audit_verification",
  {
    singleton: boolean("singleton").primaryKey().default(true),
    seq: bigint("seq", { mode: "number" }).notNull(),
    hash: bytea("hash").notNull(),
    checkedAt: timestamp("checked_at").notNull(),
    checkedSince: timestamp("checked_since").notNull(),
    /** The position of the pass that checks all events again, and when it began. */
    passSeq: bigint("pass_seq", { mode: "number" }).notNull(),
    passHash: bytea("pass_hash").notNull(),
    passStartedAt: timestamp("pass_started_at").notNull(),
    faultKind: text("fault_kind").$type<AuditChainFaultKind>(),
    faultSeq: bigint("fault_seq", { mode: "number" }),
  },
  (table) => [check("audit_verification_singleton", sql`${table.singleton}`)],
);

/** Refusals of anonymous callers of an address (IPv6: its /64) in one minute. The first is an audit event; the count becomes one after the minute. */
export const refusalCount = pgTable(
  "refusal_count",
  {
    action: text("action").notNull(),
    addressKey: text("address_key").notNull(),
    minuteStartedAt: timestamp("minute_started_at").notNull(),
    reasonCode: text("reason_code").notNull(),
    /** Empty for refusals that concern nobody known. */
    targetId: text("target_id").notNull(),
    targetType: text("target_type").notNull(),
    refusals: bigint("refusals", { mode: "number" }).notNull(),
    lastAt: timestamp("last_at").notNull(),
  },
  (table) => [
    primaryKey({
      name: "refusal_count_pk",
      columns: [
        table.action,
        table.minuteStartedAt,
        table.addressKey,
        table.reasonCode,
        table.targetId,
      ],
    }),
    index("refusal_count_minute").on(table.minuteStartedAt),
  ],
);
