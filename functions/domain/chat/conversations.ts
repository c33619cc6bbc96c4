import type { TimedCore, WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  type ChatMessageRow,
  type ChatSessionRow,
  countChatSessions,
  deleteChatSession,
  findChatSession,
  insertChatSession,
  listChatMessages,
  listChatSessions,
  updateChatSession,
} from "#functions/store/chat/sessions.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { Operator } from "../operator/authenticate.ts";
import type { Chat } from "./chat.ts";
import { closeExpiredTurn } from "./close-turn.ts";

/** The most conversations of a person. Core deletes none: the person must delete one to begin another. */
const conversationsMax = 200;

/** Creates a conversation of the operator. Throws 409 `conflict` when they have 200. */
export const createConversation = async (
  { db, clock, entropy }: WriteCore,
  operator: Operator,
  title: string | null,
): Promise<ChatSessionRow> => {
  if ((await countChatSessions(db, operator.userId)) >= conversationsMax)
    throw new Problem("conflict", {
      detail: `You have ${conversationsMax} conversations: delete one first`,
    });
  const now = new Date(clock.now());
  const row = {
    id: uuidv7({ clock, entropy }),
    userId: operator.userId,
    title,
    createdAt: now,
    updatedAt: now,
  };
  await insertChatSession(db, row);
  return {
    ...row,
    messageCount: 0,
    receiptCount: 0,
    lastReceiptSha256: null,
    turnId: null,
    turnExpiresAt: null,
  };
};

/** Returns one page of the operator's conversations, the last used first. */
export const browseConversations = (
  { db }: WriteCore,
  operator: Operator,
  page: PageRequest,
): Promise<Paged<ChatSessionRow>> => listChatSessions(db, operator.userId, page);

/**
 * Returns a conversation of the operator, after closing its turn if the core that wrote it was killed. Throws 404 `not_found`, also for
 * another person's conversation.
 */
export const openConversation = async (
  core: TimedCore,
  chat: Pick<Chat, "signer">,
  operator: Operator,
  id: string,
): Promise<ChatSessionRow> => {
  const session = requireFound(await findChatSession(core.db, { id, userId: operator.userId }));
  if (session.turnExpired) await closeExpiredTurn(core, chat, id);
  return session;
};

/** Returns a conversation of the operator with its messages, like `openConversation`. */
export const readConversation = async (
  core: TimedCore,
  chat: Pick<Chat, "signer">,
  operator: Operator,
  id: string,
): Promise<{ session: ChatSessionRow; messages: ChatMessageRow[] }> => {
  const session = await openConversation(core, chat, operator, id);
  return { session, messages: await listChatMessages(core.db, id) };
};

/** Renames a conversation of the operator. Throws 404 `not_found`. */
export const renameConversation = async (
  { db }: WriteCore,
  operator: Operator,
  { id, title }: { id: string; title: string },
): Promise<ChatSessionRow> => {
  const session = requireFound(await findChatSession(db, { id, userId: operator.userId }));
  await updateChatSession(db, id, { title });
  return { ...session, title };
};

/** Deletes a conversation of the operator with its receipts; ends an answer under way. Throws 404 `not_found`. */
export const deleteConversation = async ({ db }: WriteCore, operator: Operator, id: string) => {
  if (!(await deleteChatSession(db, { id, userId: operator.userId })))
    throw new Problem("not_found");
};
