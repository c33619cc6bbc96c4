import { sql } from "drizzle-orm";
import { boolean, index, integer, primaryKey, text, uniqueIndex, uuid } from "drizzle-orm/pg-core";
import type { Receipt } from "#proto/chat/receipt.ts";
import type { MessagePart, MessageStatus } from "#proto/chat/session.ts";
import { jsonText, table, timestamp } from "./columns.ts";
import { person } from "./operator.ts";

/**
 * A conversation of one person, and the end of its receipt chain. Its row lock orders everything that a turn writes. `turn_id` is the
 * answer that is being written, by the core that renews the lease; the lease expires by the database's clock, because cores may disagree.
 */
export const chatSession = table(
  "chat_session",
  {
    id: uuid().primaryKey(),
    userId: uuid()
      .notNull()
      .references(() => person.userId),
    title: text(),
    createdAt: timestamp().notNull(),
    updatedAt: timestamp().notNull(),
    messageCount: integer().notNull().default(0),
    receiptCount: integer().notNull().default(0),
    /** SHA-256 of the last receipt, in hex; null without one. */
    lastReceiptSha256: text(),
    turnId: uuid(),
    turnExpiresAt: timestamp(),
  },
  (columns) => [
    index("chat_session_person").on(columns.userId, columns.updatedAt, columns.id),
    index("chat_session_turn").on(columns.turnExpiresAt).where(sql`${columns.turnId} is not null`),
  ],
);

/** A message of a conversation. */
export const chatMessage = table(
  "chat_message",
  {
    id: uuid().primaryKey(),
    sessionId: uuid()
      .notNull()
      .references(() => chatSession.id, { onDelete: "cascade" }),
    /** From 1: questions have odd positions, each answer the next one. */
    position: integer().notNull(),
    role: text().$type<"user" | "assistant">().notNull(),
    status: text().$type<MessageStatus>().notNull(),
    createdAt: timestamp().notNull(),
    parts: jsonText<MessagePart[]>().notNull(),
    /** The model of an answer; null for a question. */
    provider: text(),
    model: text(),
    /** Text of a running answer after its last stored part. */
    tail: text().notNull().default(""),
  },
  (columns) => [uniqueIndex("chat_message_position").on(columns.sessionId, columns.position)],
);

/** The receipts of a conversation with their payloads, both as they were hashed. */
export const chatReceipt = table(
  "chat_receipt",
  {
    sessionId: uuid()
      .notNull()
      .references(() => chatSession.id, { onDelete: "cascade" }),
    seq: integer().notNull(),
    receipt: jsonText<Receipt>().notNull(),
    payload: jsonText<Record<string, unknown>>("payload").notNull(),
  },
  (columns) => [primaryKey({ columns: [columns.sessionId, columns.seq] })],
);

/** Every public key that ever signed receipts. Never deleted: old receipts need them. */
export const chatReceiptKey = table("chat_receipt_key", {
  keyId: text().primaryKey(),
  /** The public key, base64url (RFC 8037). */
  x: text().notNull(),
  ephemeral: boolean().notNull(),
  createdAt: timestamp().notNull(),
});
