import {
  and,
  count,
  desc,
  eq,
  getTableColumns,
  isNotNull,
  lt,
  or,
  type SQL,
  sql,
} from "drizzle-orm";
import { chatMessage, chatSession } from "#drizzle/schema/chat.ts";
import type { Executor } from "../database/database.ts";
import type { Paged, PageRequest } from "../database/statements.ts";

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
export const insertChatSession = async (
  db: Executor,
  row: typeof chatSession.$inferInsert,
): Promise<void> => {
  await db.insert(chatSession).values(row);
};

/** Counts the conversations of a person. */
export const countChatSessions = async (db: Executor, userId: string): Promise<number> => {
  const [row] = await db
    .select({ count: count() })
    .from(chatSession)
    .where(eq(chatSession.userId, userId));
  return row?.count ?? 0;
};

/** Finds a conversation of a person. */
export const findChatSession = async (
  db: Executor,
  { id, userId }: { id: string; userId: string },
): Promise<LeasedChatSession | undefined> => {
  const [row] = await selectLeased(db, isOwn({ id, userId }));
  return row;
};

/** Locks a conversation until the transaction ends. */
export const lockChatSession = async (
  db: Executor,
  id: string,
): Promise<LeasedChatSession | undefined> => {
  const [row] = await selectLeased(db, eq(chatSession.id, id)).for("update");
  return row;
};

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
  const last = rows[limit - 1];
  const next = rows.length > limit && last ? positionOf(last) : null;
  return { rows: rows.slice(0, limit), next };
};

/** Changes a conversation. */
export const updateChatSession = async (
  db: Executor,
  id: string,
  change: Partial<ChatSessionRow>,
): Promise<void> => {
  await db.update(chatSession).set(change).where(eq(chatSession.id, id));
};

/** Deletes a conversation of a person with its messages and receipts. Returns false if there is none. */
export const deleteChatSession = async (
  db: Executor,
  { id, userId }: { id: string; userId: string },
): Promise<boolean> => {
  const rows = await db
    .delete(chatSession)
    .where(isOwn({ id, userId }))
    .returning({ id: chatSession.id });
  return rows.length > 0;
};

/** Gives a turn the lease of its conversation. */
export const leaseTurn = async (db: Executor, id: string, turnId: string): Promise<void> => {
  await db
    .update(chatSession)
    .set({ turnId, turnExpiresAt: leaseEnd })
    .where(eq(chatSession.id, id));
};

/** Renews the lease of a turn. Returns false when the turn was closed, or its conversation deleted. */
export const renewTurn = async (
  db: Executor,
  { sessionId, turnId }: { sessionId: string; turnId: string },
): Promise<boolean> => {
  const rows = await db
    .update(chatSession)
    .set({ turnExpiresAt: leaseEnd })
    .where(and(eq(chatSession.id, sessionId), eq(chatSession.turnId, turnId)))
    .returning({ id: chatSession.id });
  return rows.length > 0;
};

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
