import { sql } from "drizzle-orm";
import {
  boolean,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
  uuid,
} from "drizzle-orm/pg-core";
import type { Receipt } from "../../proto/chat/receipt.ts";
import type { MessagePart, MessageStatus } from "../../proto/chat/session.ts";
import { jsonText, timestamp } from "./columns.ts";
import { person } from "./operator.ts";

/**
 * A conversation of one person, and the end of its receipt chain. Its row lock orders everything that a turn writes. `turn_id` is the
 * answer that is being written, by the core that renews the lease; the lease expires by the database's clock, because cores may disagree.
 */
export const chatSession = pgTable(
  "chat_session",
  {
    id: uuid("id").primaryKey(),
    userId: uuid("user_id")
      .notNull()
      .references(() => person.userId),
    title: text("title"),
    createdAt: timestamp("created_at").notNull(),
    updatedAt: timestamp("updated_at").notNull(),
    messageCount: integer("message_count").notNull().default(0),
    receiptCount: integer("receipt_count").notNull().default(0),
    /** SHA-256 of the last receipt, in hex; null without one. */
    lastReceiptSha256: text("last_receipt_sha256"),
    turnId: uuid("turn_id"),
    turnExpiresAt: timestamp("turn_expires_at"),
  },
  (table) => [
    index("chat_session_person").on(table.userId, table.updatedAt, table.id),
    index("chat_session_turn").on(table.turnExpiresAt).where(sql`${table.turnId} is not null`),
  ],
);

/** A message of a conversation. */
export const chatMessage = pgTable(
  "chat_message",
  {
    id: uuid("id").primaryKey(),
    sessionId: uuid("session_id")
      .notNull()
      .references(() => chatSession.id, { onDelete: "cascade" }),
    /** From 1: questions have odd positions, each answer the next one. */
    position: integer("position").notNull(),
    role: text("role").$type<"user" | "assistant">().notNull(),
    status: text("status").$type<MessageStatus>().notNull(),
    createdAt: timestamp("created_at").notNull(),
    parts: jsonText<MessagePart[]>("parts").notNull(),
    /** The model of an answer; null for a question. */
    provider: text("provider"),
    model: text("model"),
    /** Text of a running answer after its last stored part. */
    tail: text("tail").notNull().default(""),
  },
  (table) => [uniqueIndex("chat_message_position").on(table.sessionId, table.position)],
);

/** The receipts of a conversation with their payloads, both as they were hashed. */
export const chatReceipt = pgTable(
  "chat_receipt",
  {
    sessionId: uuid("session_id")
      .notNull()
      .references(() => chatSession.id, { onDelete: "cascade" }),
    seq: integer("seq").notNull(),
    receipt: jsonText<Receipt>("receipt").notNull(),
    payload: jsonText<Record<string, unknown>>("payload").notNull(),
  },
  (table) => [primaryKey({ columns: [table.sessionId, table.seq] })],
);

/** Every public key that ever signed receipts. Never deleted: old receipts need them. */
export const chatReceiptKey = pgTable("chat_receipt_key", {
  keyId: text("key_id").primaryKey(),
  /** The public key, base64url (RFC 8037). */
  x: text("x").notNull(),
  ephemeral: boolean("ephemeral").notNull(),
  createdAt: timestamp("created_at").notNull(),
});
