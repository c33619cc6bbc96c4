import { eq } from "drizzle-orm";
import { chatReceipt, chatReceiptKey } from "#drizzle/schema/chat.ts";
import type { Executor } from "../database/database.ts";

/** A receipt's row. */
type ChatReceiptRow = typeof chatReceipt.$inferSelect;

/** A receipt key's row. */
export type ChatReceiptKeyRow = typeof chatReceiptKey.$inferSelect;

/** Inserts receipts. */
export const insertChatReceipts = async (
  db: Executor,
  rows: readonly ChatReceiptRow[],
): Promise<void> => {
  await db.insert(chatReceipt).values([...rows]);
};

/** Returns the receipts of a conversation in the order of the chain. */
export const listChatReceipts = (db: Executor, sessionId: string): Promise<ChatReceiptRow[]> =>
  db
    .select()
    .from(chatReceipt)
    .where(eq(chatReceipt.sessionId, sessionId))
    .orderBy(chatReceipt.seq);

/** Stores a public key unless its id is known. Returns the key that has the id. */
export const keepChatReceiptKey = async (
  db: Executor,
  row: ChatReceiptKeyRow,
): Promise<ChatReceiptKeyRow> => {
  await db.insert(chatReceiptKey).values(row).onConflictDoNothing();
  const [kept] = await db.select().from(chatReceiptKey).where(eq(chatReceiptKey.keyId, row.keyId));
  return kept ?? row;
};

/** Returns every public key, oldest first. */
export const listChatReceiptKeys = (db: Executor): Promise<ChatReceiptKeyRow[]> =>
  db.select().from(chatReceiptKey).orderBy(chatReceiptKey.createdAt, chatReceiptKey.keyId);
