import { bigint, index, jsonb, pgTable, text, uuid } from "drizzle-orm/pg-core";
import { bytea, timestamp } from "./columns.ts";

/** The kind of actor of an event. */
export type ActorType = "operator" | "collector" | "system";

/** The audit log. An event is inserted in the transaction of the change that it records, and never updated or deleted. */
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
    index("audit_event_target").on(table.targetId),
    index("audit_event_action").on(table.action, table.occurredAt),
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
