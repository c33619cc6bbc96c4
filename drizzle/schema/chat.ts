import { sql } from "drizzle-orm";
import { index, uniqueIndex } from "drizzle-orm/pg-core";
import type { Receipt } from "#proto/chat/receipt.ts";
import type { MessagePart, MessageStatus } from "#proto/chat/session.ts";
import {
  boolean,
  integer,
  jsonText,
  nullable,
  primaryKeyOf,
  table,
  text,
  timestamp,
  uuid,
} from "./columns.ts";
import { person } from "./operator.ts";

/**
 * A conversation of one person, and the end of its receipt chain. Its row lock orders everything that a turn writes. `turn_id` is the
 * answer that is being written, by the core that renews the lease; the lease expires by the database's clock, because cores may disagree.
 */
export const chatSession = table(
  "chat_session",
  {
    id: uuid().primaryKey(),
    userId: uuid().references(() => person.userId),
    title: nullable.text(),
    createdAt: timestamp(),
    updatedAt: timestamp(),
    messageCount: integer().default(0),
    receiptCount: integer().default(0),
    /** SHA-256 of the last receipt, in hex; null without one. */
    lastReceiptSha256: nullable.text(),
    turnId: nullable.uuid(),
    turnExpiresAt: nullable.timestamp(),
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
    sessionId: uuid().references(() => chatSession.id, { onDelete: "cascade" }),
    /** From 1: questions have odd positions, each answer the next one. */
    position: integer(),
    role: text().$type<"user" | "assistant">(),
    status: text().$type<MessageStatus>(),
    createdAt: timestamp(),
    parts: jsonText<MessagePart[]>().notNull(),
    /** The model of an answer; null for a question. */
    provider: nullable.text(),
    model: nullable.text(),
    /** Text of a running answer after its last stored part. */
    tail: text().default(""),
  },
  (columns) => [uniqueIndex("chat_message_position").on(columns.sessionId, columns.position)],
);

/** The receipts of a conversation with their payloads, both as they were hashed. */
export const chatReceipt = table(
  "chat_receipt",
  {
    sessionId: uuid().references(() => chatSession.id, { onDelete: "cascade" }),
    seq: integer(),
    receipt: jsonText<Receipt>().notNull(),
    payload: jsonText<Record<string, unknown>>("payload").notNull(),
  },
  (columns) => [primaryKeyOf(columns.sessionId, columns.seq)],
);

/** Every public key that ever signed receipts. Never deleted: old receipts need them. */
export const chatReceiptKey = table("chat_receipt_key", {
  keyId: text().primaryKey(),
  /** The public key, base64url (RFC 8037). */
  x: text(),
  ephemeral: boolean(),
  createdAt: timestamp(),
});
