import { createEffect, createSignal, on } from "solid-js";
import { ReceiptFile, ReceiptKeys } from "../../../proto/chat/receipt.ts";
import { type ApiClient, ApiProblem } from "../api/api-client.ts";
import { canVerify, checkAnswers, type Verdict } from "./check-answers.ts";
import { type Conversation, type ShownMessage, sessionsPath } from "./conversation.ts";

/** Returns what the receipts prove of an answer. Reads and checks the conversation's receipts again whenever an answer has ended. */
export const createVerdicts = (api: ApiClient, conversation: Conversation): ((message: ShownMessage) => Verdict) => {
  const [verdicts, setVerdicts] = createSignal<ReadonlyMap<string, Verdict>>(new Map());
  const [fallback, setFallback] = createSignal<Verdict>({ kind: "checking" });
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
      const [messages, seen] = [conversation.messages(), conversation.receipts()];
      const checked = await checkAnswers(file, { keys, messages, seen });
      if (mine === run) setVerdicts(checked);
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
  createEffect(on(ended, (answers) => answers !== "" && conversation.id() !== undefined && void check()));
  return ({ id }) => verdicts().get(id) ?? fallback();
};
