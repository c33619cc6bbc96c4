import { sql } from "drizzle-orm";
import { index, jsonb, primaryKey } from "drizzle-orm/pg-core";
import {
  bytea,
  counter,
  nullable,
  singleRowTable,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";

/** The kind of actor of an event. */
export type ActorType = "operator" | "workload" | "collector" | "system";

/**
 * The audit log. An event is inserted in the transaction of the change that it records, and never updated or deleted. Ids sort by time:
 * with an index for each filter that ends in the id, a page reads only as many entries as it returns.
 */
export const auditEvent = table(
  "audit_event",
  {
    id: uuid().primaryKey(),
    occurredAt: timestamp(),
    actorType: text().$type<ActorType>(),
    actorId: text(),
    actorDisplay: text(),
    action: text(),
    targetType: text(),
    targetId: text(),
    outcome: text().$type<"success" | "failure">(),
    reasonCode: nullable.text(),
    reason: nullable.text(),
    remoteAddr: nullable.text(),
    requestId: nullable.text(),
    details: jsonb().$type<Record<string, unknown>>().notNull(),
  },
  (columns) => [
    index("audit_event_time").on(columns.occurredAt, columns.id),
    index("audit_event_target").on(columns.targetId, columns.id),
    index("audit_event_action").on(columns.action, columns.id),
    index("audit_event_actor").on(columns.actorId, columns.action, columns.id),
    index("audit_event_actor_display").on(columns.actorDisplay, columns.action, columns.id),
    index("audit_event_failure").on(columns.id).where(sql`${columns.outcome} = 'failure'`),
  ],
);

/** Events without a link in the hash chain yet; inserted with the event. */
export const auditPending = table("audit_pending", {
  eventId: uuid().primaryKey(),
});

/**
 * The order of the log and its hash chain, appended after the commit of each event. No foreign key: the link of a deleted event stays
 * and proves the deletion.
 */
export const auditChain = table("audit_chain", {
  seq: counter().primaryKey(),
  eventId: uuid().unique("audit_chain_event"),
  prevHash: bytea(),
  hash: bytea(),
});

/** The faults that stop the verification of the chain; the sequence says where. */
export type AuditChainFaultKind = "gap" | "chain_broken" | "event_missing" | "event_edited";

/**
 * One row: how much of the chain a job has recomputed. Every event up to `seq` was compared with its link at some time between
 * `checked_since` and `checked_at`; `hash` is the hash of the last one. A fault is final and stops the job: only an administrator of the
 * database who has explained it deletes the row.
 */
export const auditVerification = singleRowTable("audit_verification", {
  seq: counter(),
  hash: bytea(),
  checkedAt: timestamp(),
  checkedSince: timestamp(),
  /** The position of the pass that checks all events again, and when it began. */
  passSeq: counter(),
  passHash: bytea(),
  passStartedAt: timestamp(),
  faultKind: nullable.text().$type<AuditChainFaultKind>(),
  faultSeq: nullable.counter(),
});

/** Refusals of anonymous callers of an address (IPv6: its /64) in one minute. The first is an audit event; the count becomes one after the minute. */
export const refusalCount = table(
  "refusal_count",
  {
    action: text(),
    addressKey: text(),
    minuteStartedAt: timestamp(),
    reasonCode: text(),
    /** Empty for refusals that concern nobody known. */
    targetId: text(),
    targetType: text(),
    refusals: counter(),
    lastAt: timestamp(),
  },
  (columns) => [
    primaryKey({
      name: "refusal_count_pk",
      columns: [
        columns.action,
        columns.minuteStartedAt,
        columns.addressKey,
        columns.reasonCode,
        columns.targetId,
      ],
    }),
    index("refusal_count_minute").on(columns.minuteStartedAt),
  ],
);
