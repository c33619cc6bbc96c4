import type { WriteCore } from "#functions/core.ts";
import type { InferenceMessage } from "#functions/inference/inference.ts";
import { Problem } from "#functions/problems.ts";
import {
  insertChatMessages,
  listNewestChatMessages,
  sizeOfChatMessages,
} from "#functions/store/chat/messages.ts";
import {
  type LeasedChatSession,
  leaseTurn,
  lockChatSession,
  updateChatSession,
} from "#functions/store/chat/sessions.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { Receipt } from "#proto/chat/receipt.ts";
import { titleLengthMax } from "#proto/chat/session.ts";
import { cutText } from "#proto/values.ts";
import type { Operator } from "../operator/authenticate.ts";
import type { Chat } from "./chat.ts";
import { closeTurn } from "./close-turn.ts";
import { historyOf } from "./model-messages.ts";
import { appendReceipts, type ChainNeeds, requireReceiptKey } from "./receipts.ts";

/** The most turns of a conversation. */
const turnsMax = 100;
/** No turn begins when a conversation's messages have this many bytes, because all of it is read at once. */
const conversationBytesMax = 16 * 1024 * 1024;
/** The most messages of the history, which seldom has room for as many. */
const historyMessages = 40;
/** The start of a question that becomes the title, in characters. */
const titleCharacters = Math.min(80, titleLengthMax);

/** A turn that has begun: its question is stored, and this core has its lease. */
export interface BegunTurn {
  sessionId: string;
  /** The id of the answer. */
  id: string;
  /** The conversation so far, with the question. */
  messages: InferenceMessage[];
  receipt: Receipt;
}

/**
 * Stores the question, its receipt and an empty answer, and takes the lease of the conversation. Closes a turn whose core was killed.
 * Throws 404 `not_found`, 409 `conflict` while another answer is being written, and after 100 turns or 16 MiB.
 */
export const beginTurn = (
  { db, clock, entropy }: WriteCore,
  { signer, inference }: Pick<Chat, "signer" | "inference">,
  operator: Operator,
  { sessionId, content }: { sessionId: string; content: string },
): Promise<BegunTurn> =>
  db.transaction(async (tx) => {
    const needs = { signer, clock };
    const session = await lockChatSession(tx, sessionId);
    if (session === undefined || session.userId !== operator.userId) throw new Problem("not_found");
    await requireReceiptKey(tx, needs);
    await requireFree(tx, needs, session);
    const earlier = await listNewestChatMessages(tx, sessionId, historyMessages);
    const now = new Date(clock.now());
    const questionId = uuidv7({ clock, entropy });
    const answerId = uuidv7({ clock, entropy });
    const shared = { sessionId, createdAt: now };
    await insertChatMessages(tx, [
      {
        ...shared,
        id: questionId,
        position: session.messageCount + 1,
        role: "user",
        status: "complete",
        parts: [{ type: "text", text: content }],
      },
      {
        ...shared,
        id: answerId,
        position: session.messageCount + 2,
        role: "assistant",
        status: "answering",
        parts: [],
        provider: inference.provider,
        model: inference.model,
      },
    ]);
    const [receipt] = await appendReceipts(tx, needs, session, [
      { kind: "user_message", payload: { message_id: questionId, content } },
    ]);
    if (receipt === undefined) throw new Error("no receipt was appended");
    await updateChatSession(tx, sessionId, {
      updatedAt: now,
      messageCount: session.messageCount + 2,
      title:
        session.title ?? (cutText(content.trim().replaceAll(/\s+/g, " "), titleCharacters) || null),
    });
    await leaseTurn(tx, sessionId, answerId);
    return {
      sessionId,
      id: answerId,
      messages: [...historyOf(earlier), { role: "user", text: content }],
      receipt,
    };
  });

/** Closes a turn whose lease has expired. Throws 409 `conflict` while an answer is being written, and when the conversation is full. */
const requireFree = async (tx: Executor, needs: ChainNeeds, session: LeasedChatSession) => {
  if (session.turnId !== null) {
    if (!session.turnExpired)
      throw new Problem("conflict", { detail: "An answer is being written in this conversation" });
    await closeTurn(tx, needs, session, { status: "aborted" });
  }
  if (session.messageCount >= 2 * turnsMax)
    throw new Problem("conflict", {
      detail: `The conversation has ${turnsMax} questions: begin another one`,
    });
  if ((await sizeOfChatMessages(tx, session.id)) > conversationBytesMax)
    throw new Problem("conflict", { detail: "The conversation is full: begin another one" });
};
