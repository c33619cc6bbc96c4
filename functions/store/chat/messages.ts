import { desc, eq, sql } from "drizzle-orm";
import { chatMessage } from "#drizzle/schema/chat.ts";
import type { Executor } from "../database/database.ts";

/** A message's row. */
export type ChatMessageRow = typeof chatMessage.$inferSelect;

/** Inserts messages. */
export const insertChatMessages = async (
  db: Executor,
  rows: readonly (typeof chatMessage.$inferInsert)[],
): Promise<void> => {
  await db.insert(chatMessage).values([...rows]);
};

/** Finds a message. */
export const findChatMessage = async (
  db: Executor,
  id: string,
): Promise<ChatMessageRow | undefined> => {
  const [row] = await db.select().from(chatMessage).where(eq(chatMessage.id, id));
  return row;
};

/** Returns the messages of a conversation, oldest first. */
export const listChatMessages = (db: Executor, sessionId: string): Promise<ChatMessageRow[]> =>
  db
    .select()
    .from(chatMessage)
    .where(eq(chatMessage.sessionId, sessionId))
    .orderBy(chatMessage.position);

/** Returns the newest messages of a conversation, oldest first. */
export const listNewestChatMessages = async (
  db: Executor,
  sessionId: string,
  limit: number,
): Promise<ChatMessageRow[]> => {
  const rows = await db
    .select()
    .from(chatMessage)
    .where(eq(chatMessage.sessionId, sessionId))
    .orderBy(desc(chatMessage.position))
    .limit(limit);
  return rows.reverse();
};

/** Returns the size of a conversation's messages, in bytes. */
export const sizeOfChatMessages = async (db: Executor, sessionId: string): Promise<number> => {
  const [row] = await db
    .select({ bytes: sql<string>`coalesce(sum(octet_length(${chatMessage.parts})), 0)` })
    .from(chatMessage)
    .where(eq(chatMessage.sessionId, sessionId));
  return Number(row?.bytes ?? 0);
};

/** Changes a message. */
export const updateChatMessage = async (
  db: Executor,
  id: string,
  change: Partial<Pick<ChatMessageRow, "status" | "parts" | "tail">>,
): Promise<void> => {
  await db.update(chatMessage).set(change).where(eq(chatMessage.id, id));
};
