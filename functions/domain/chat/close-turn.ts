import type { TimedCore } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import {
  findChatMessage,
  findExpiredTurns,
  type LeasedChatSession,
  lockChatSession,
  releaseTurn,
  updateChatMessage,
} from "#functions/store/chat/sessions.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { Receipt } from "#proto/chat/receipt.ts";
import { type MessagePart, type MessageStatus, messageText } from "#proto/chat/session.ts";
import type { Chat } from "./chat.ts";
import {
  appendReceipts,
  type ChainNeeds,
  type ReceiptEntry,
  requireReceiptKey,
} from "./receipts.ts";

/** The outcome of a turn. */
export type TurnOutcome = Exclude<MessageStatus, "answering">;

/**
 * Closes the turn of a locked conversation: stores the answer, appends its receipt if it has text, and the closing. `parts` absent: the
 * last stored ones.
 */
export const closeTurn = async (
  tx: Executor,
  needs: ChainNeeds,
  session: LeasedChatSession,
  { status, parts }: { status: TurnOutcome; parts?: readonly MessagePart[] },
): Promise<Receipt[]> => {
  const answer = session.turnId === null ? undefined : await findChatMessage(tx, session.turnId);
  if (answer === undefined)
    throw new Problem("conflict", { detail: "The conversation has no open turn" });
  const tail: MessagePart[] = answer.tail === "" ? [] : [{ type: "text", text: answer.tail }];
  const whole = [...(parts ?? [...answer.parts, ...tail])];
  await updateChatMessage(tx, answer.id, { status, parts: whole, tail: "" });
  const text = messageText(whole);
  const { provider, model } = answer;
  const answered: ReceiptEntry = {
    kind: "answer",
    payload: { message_id: answer.id, provider: provider ?? "", model: model ?? "", text },
  };
  const closing: ReceiptEntry = { kind: "closing", payload: { message_id: answer.id, status } };
  const receipts = await appendReceipts(
    tx,
    needs,
    session,
    text === "" ? [closing] : [answered, closing],
  );
  await releaseTurn(tx, session.id);
  session.turnId = null;
  return receipts;
};

/** Turns that one call of `closeExpiredTurns` closes. */
const batchMax = 100;

/** Closes turns whose core was killed, as aborted and with the stored text. Returns undefined when there was none. */
export const closeExpiredTurns = async (
  { db, clock }: TimedCore,
  { signer }: Pick<Chat, "signer">,
): Promise<{ closed: number } | undefined> => {
  let closed = 0;
  for (const id of await findExpiredTurns(db, batchMax)) {
    if (await closeExpiredTurn({ db, clock }, { signer }, id)) closed += 1;
  }
  return closed === 0 ? undefined : { closed };
};

/** Closes the turn of a conversation as aborted if its core was killed. Returns whether it did. */
export const closeExpiredTurn = (
  { db, clock }: TimedCore,
  { signer }: Pick<Chat, "signer">,
  id: string,
): Promise<boolean> =>
  db.transaction(async (tx) => {
    const session = await lockChatSession(tx, id);
    if (session === undefined || session.turnId === null || !session.turnExpired) return false;
    await requireReceiptKey(tx, { signer, clock });
    await closeTurn(tx, { signer, clock }, session, { status: "aborted" });
    return true;
  });
