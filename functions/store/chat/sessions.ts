import { and, desc, eq, getTableColumns, isNotNull, lt, or, type SQL, sql } from "drizzle-orm";
import { chatMessage, chatReceipt, chatReceiptKey, chatSession } from "#drizzle/schema/chat.ts";
import type { Executor } from "../database/database.ts";
import {
  finderOf,
  firstRow,
  hasRows,
  inserterOf,
  type Paged,
  type PageRequest,
  paged,
  readScalar,
  updaterOf,
} from "../database/statements.ts";

/** A conversation's row. */
export type ChatSessionRow = typeof chatSession.$inferSelect;

/** A conversation and the state of its turn's lease. */
export type LeasedChatSession = ChatSessionRow & {
  /** Its turn's lease has expired: the core that wrote the answer was killed. */
  turnExpired: boolean;
};

/** A core renews a lease every two seconds. */
const leaseSeconds = 6;
/** By the database's clock, because the clocks of cores may differ. */
const leaseEnd = sql`clock_timestamp() + ${sql.raw(`interval '${leaseSeconds} seconds'`)}`;
const isExpired = sql<boolean>`coalesce(${chatSession.turnExpiresAt} < clock_timestamp(), false)`;

/** Inserts a conversation. */
export const insertChatSession = inserterOf(chatSession);

/** Counts the conversations of a person. */
export const countChatSessions = (db: Executor, userId: string): Promise<number> =>
  db.$count(chatSession, eq(chatSession.userId, userId));

/** Finds a conversation of a person. */
export const findChatSession = (
  db: Executor,
  session: { id: string; userId: string },
): Promise<LeasedChatSession | undefined> => firstRow(selectLeased(db, isOwn(session)));

/** Locks a conversation until the transaction ends. */
export const lockChatSession = (db: Executor, id: string): Promise<LeasedChatSession | undefined> =>
  firstRow(selectLeased(db, eq(chatSession.id, id)).for("update"));

const selectLeased = (db: Executor, where: SQL | undefined) =>
  db
    .select({ ...getTableColumns(chatSession), turnExpired: isExpired })
    .from(chatSession)
    .where(where);

const isOwn = ({ id, userId }: { id: string; userId: string }): SQL | undefined =>
  and(eq(chatSession.id, id), eq(chatSession.userId, userId));

const positionOf = ({ updatedAt, id }: ChatSessionRow): string =>
  `${updatedAt.toISOString()} ${id}`;

const isAfter = (position: string): SQL | undefined => {
  const [time = "", id = ""] = position.split(" ");
  const updatedAt = new Date(time);
  return or(
    lt(chatSession.updatedAt, updatedAt),
    and(eq(chatSession.updatedAt, updatedAt), lt(chatSession.id, id)),
  );
};

/** Returns one page of a person's conversations, the last used first. */
export const listChatSessions = async (
  db: Executor,
  userId: string,
  { after, limit }: PageRequest,
): Promise<Paged<ChatSessionRow>> => {
  const rows = await db
    .select()
    .from(chatSession)
    .where(and(eq(chatSession.userId, userId), after === null ? undefined : isAfter(after)))
    .orderBy(desc(chatSession.updatedAt), desc(chatSession.id))
    .limit(limit + 1);
  return paged(rows, { limit }, positionOf);
};

/** Changes a conversation. */
export const updateChatSession = updaterOf(chatSession);

/** Deletes a conversation of a person with its messages and receipts. Returns false if there is none. */
export const deleteChatSession = (
  db: Executor,
  session: { id: string; userId: string },
): Promise<boolean> =>
  hasRows(db.delete(chatSession).where(isOwn(session)).returning({ id: chatSession.id }));

/** Gives a turn the lease of its conversation. */
export const leaseTurn = async (db: Executor, id: string, turnId: string) => {
  await db
    .update(chatSession)
    .set({ turnId, turnExpiresAt: leaseEnd })
    .where(eq(chatSession.id, id));
};

/** Renews the lease of a turn. Returns false when the turn was closed, or its conversation deleted. */
export const renewTurn = (
  db: Executor,
  { sessionId, turnId }: { sessionId: string; turnId: string },
): Promise<boolean> =>
  hasRows(
    db
      .update(chatSession)
      .set({ turnExpiresAt: leaseEnd })
      .where(and(eq(chatSession.id, sessionId), eq(chatSession.turnId, turnId)))
      .returning({ id: chatSession.id }),
  );

/** Ends the turn of a conversation. */
export const releaseTurn = (db: Executor, id: string): Promise<void> =>
  updateChatSession(db, id, { turnId: null, turnExpiresAt: null });

/** Finds conversations whose turn has an expired lease. */
export const findExpiredTurns = async (db: Executor, limit: number): Promise<string[]> => {
  const rows = await db
    .select({ id: chatSession.id })
    .from(chatSession)
    .where(and(isNotNull(chatSession.turnId), isExpired))
    .orderBy(chatSession.turnExpiresAt)
    .limit(limit);
  return rows.map(({ id }) => id);
};

/** A message's row. */
export type ChatMessageRow = typeof chatMessage.$inferSelect;

/** Inserts messages. */
export const insertChatMessages = inserterOf(chatMessage);

/** Finds a message. */
export const findChatMessage = finderOf(chatMessage);

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
export const sizeOfChatMessages = (db: Executor, sessionId: string): Promise<number> =>
  readScalar(
    db,
    Number,
    sql`select coalesce(sum(octet_length(parts)), 0) from chat_message where session_id = ${sessionId}::uuid`,
  );

/** Changes a message. */
export const updateChatMessage = updaterOf(chatMessage);

/** A receipt's row. */
type ChatReceiptRow = typeof chatReceipt.$inferSelect;

/** A receipt key's row. */
export type ChatReceiptKeyRow = typeof chatReceiptKey.$inferSelect;

/** Inserts receipts. */
export const insertChatReceipts = inserterOf(chatReceipt);

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
