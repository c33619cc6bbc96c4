import { createEffect, createSignal, on } from "solid-js";
import { ReceiptFile, ReceiptKeys } from "../../../proto/chat/receipt.ts";
import { type ApiClient, ApiProblem } from "../api/api-client.ts";
import { canVerify, checkAnswers, type ReceiptStatus } from "./check-answers.ts";
import { type Conversation, type ShownMessage, sessionsPath } from "./conversation.ts";

/** Returns the receipt status of each answer. Loads and verifies the conversation's receipts again whenever an answer has ended. */
export const createReceiptStatuses = (
  api: ApiClient,
  conversation: Conversation,
): ((message: ShownMessage) => ReceiptStatus) => {
  const [statuses, setStatuses] = createSignal<ReadonlyMap<string, ReceiptStatus>>(new Map());
  const [fallback, setFallback] = createSignal<ReceiptStatus>({ kind: "checking" });
  let run = 0;

  const check = async (): Promise<void> => {
    const id = conversation.id();
    run += 1;
    const mine = run;
    if (!(await canVerify())) {
      setFallback({ kind: "unsupported" });
      return;
    }
    try {
      const [file, { keys }] = await Promise.all([
        api.get(`${sessionsPath}/${id}/receipts`, ReceiptFile),
        api.get("/api/core/chat/receipt-keys", ReceiptKeys),
      ]);
      const messages = conversation.messages();
      const seen = conversation.receipts();
      const checked = await checkAnswers(file, { keys, messages, seen });
      if (mine === run) setStatuses(checked);
    } catch (problem) {
      if (!(problem instanceof ApiProblem)) throw problem;
      if (mine === run) setFallback({ kind: "unavailable", reason: problem.message });
    }
  };
  const ended = () =>
    conversation
      .messages()
      .filter(({ role, status, id }) => role === "assistant" && status !== "answering" && id !== "")
      .map(({ id, status }) => `${id} ${status}`)
      .join();
  createEffect(
    on(ended, (answers) => answers !== "" && conversation.id() !== undefined && void check()),
  );
  return ({ id }) => statuses().get(id) ?? fallback();
};
