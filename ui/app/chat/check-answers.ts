import canonicalize from "canonicalize";
import { createEffect, createSignal, on } from "solid-js";
import { type Receipt, ReceiptFile, type ReceiptKey, ReceiptKeys } from "#proto/chat/receipt.ts";
import { messageText } from "#proto/chat/session.ts";
import { type ReceiptFaultKind, verifyReceipts } from "#proto/chat/verify-receipts.ts";
import { type ApiClient, caughtProblem } from "../api/api-client.ts";
import { type Conversation, type ShownMessage, sessionsPath } from "./conversation.ts";

/** The result of checking the receipts of an answer. */
export type ReceiptStatus =
  | { kind: "checking" }
  /** This browser has no Ed25519, or the page no secure connection. */
  | { kind: "unsupported" }
  /** The receipts could not be loaded; `reason` may be shown. */
  | { kind: "unavailable"; reason: string }
  | { kind: "unverified"; reason: string }
  /** The answer is as core signed it. With `ephemeral`, only this core's list of keys vouches for the key. */
  | {
      kind: "verified";
      ephemeral: boolean;
      /** What answered; undefined where a turn ended before an answer. */
      by: { provider: string; model: string } | undefined;
      keyIds: readonly string[];
      first: number;
      last: number;
      sha256: string;
    };

type Item = ReceiptFile["items"][number];

const faults: Readonly<Record<ReceiptFaultKind, string>> = {
  sequence: "a receipt is missing, repeated or moved",
  session: "a receipt belongs to another conversation",
  payload: "the content of a receipt was edited",
  previous: "a receipt does not follow the one before it",
  key: "its key is not one of this core's",
  signature: "its signature is wrong",
  order: "a receipt is out of order",
  head: "the signed end of the chain is wrong",
  truncated: "receipts are missing at the end",
};

/** Reports whether this browser can check signatures. */
const canVerify = async () => {
  try {
    await crypto.subtle.importKey(
      "raw",
      Uint8Array.fromBase64("1y0OcKc5yYXTWzbaHzQmWxIAh7GtTt8Y6Fb5NwbKAGE="),
      "Ed25519",
      false,
      ["verify"],
    );
    return true;
  } catch {
    return false;
  }
};

/**
 * Returns the receipt status of each answer, by message id. The chain must verify with `keys` up to the end of the answer's turn, cover exactly
 * the question, tool calls and text of `messages`, and still contain every receipt of `seen`, which arrived earlier.
 */
const checkAnswers = async (
  file: ReceiptFile,
  {
    keys,
    messages,
    seen,
  }: { keys: readonly ReceiptKey[]; messages: readonly ShownMessage[]; seen: readonly Receipt[] },
): Promise<Map<string, ReceiptStatus>> => {
  const { fault } = await verifyReceipts(file, keys);
  const replaced = seen.find(({ seq, signature }) => file.items[seq - 1]?.signature !== signature);
  const turns = turnsOf(file.items);
  const receiptStatusOf = (
    message: ShownMessage,
    question: ShownMessage | undefined,
  ): ReceiptStatus => {
    const turn = turns.find((items) => items.at(-1)?.payload.message_id === message.id);
    const unverified = (reason: string): ReceiptStatus => ({ kind: "unverified", reason });
    const last = turn?.at(-1);
    if (turn === undefined || last === undefined) return unverified("it has no closed receipt");
    if (fault !== null && fault.seq <= last.seq)
      return unverified(`receipt ${fault.seq}: ${faults[fault.kind]}`);
    if (replaced && replaced.seq <= last.seq)
      return unverified(`receipt ${replaced.seq} is not the one that arrived with the answer`);
    const difference = differenceOf(turn, message, question);
    if (difference !== undefined)
      return unverified(`${difference} shown here is not the one in the receipt`);
    const keyIds = [...new Set(turn.map(({ key_id }) => key_id))];
    const ephemeral = keys.some(({ kid, svc_ephemeral }) => svc_ephemeral && keyIds.includes(kid));
    const answer = turn.find(({ kind }) => kind === "answer");
    const { payload_sha256: sha256 } = answer ?? last;
    const { provider, model } = answer?.payload ?? {};
    return {
      kind: "verified",
      ephemeral,
      by: answer && { provider: String(provider), model: String(model) },
      keyIds,
      first: turn[0]?.seq ?? last.seq,
      last: last.seq,
      sha256,
    };
  };
  return new Map(
    messages.flatMap((message, index) =>
      message.role === "assistant" && message.id !== ""
        ? [[message.id, receiptStatusOf(message, messages[index - 1])]]
        : [],
    ),
  );
};

/** Returns the receipts of each turn that is closed. */
const turnsOf = (items: readonly Item[]): Item[][] => {
  const turns: Item[][] = [];
  let from = 0;
  for (const [at, { kind }] of items.entries())
    if (kind === "closing") {
      turns.push(items.slice(from, at + 1));
      from = at + 1;
    }
  return turns;
};

/** Describes how a turn's receipts differ from the page. */
const differenceOf = (
  turn: readonly Item[],
  { parts }: ShownMessage,
  question: ShownMessage | undefined,
) => {
  const payloads = (kind: Item["kind"]) =>
    turn.filter((item) => item.kind === kind).map(({ payload }) => payload);
  const same = (signed: unknown, shown: unknown) => canonicalize(signed) === canonicalize(shown);
  if ((payloads("user_message")[0]?.content ?? "") !== messageText(question?.parts ?? []))
    return "the question";
  if ((payloads("answer")[0]?.text ?? "") !== messageText(parts)) return "the text";
  const calls = parts.flatMap((part) =>
    part.type === "tool_call" ? [[part.call_id, part.name, part.input]] : [],
  );
  if (
    !same(
      payloads("tool_call").map(({ call_id, name, input }) => [call_id, name, input]),
      calls,
    )
  )
    return "a tool call";
  const results = parts.flatMap((part) =>
    part.type === "tool_result" ? [[part.call_id, part.result]] : [],
  );
  const signedResults = payloads("tool_result").map(({ call_id, result }) => [call_id, result]);
  return same(signedResults, results) ? undefined : "a result";
};

/** Returns the receipt status of each answer. Loads and verifies the conversation's receipts again whenever an answer has ended. */
export const createReceiptStatuses = (
  api: ApiClient,
  conversation: Conversation,
): ((message: ShownMessage) => ReceiptStatus) => {
  const [statuses, setStatuses] = createSignal<ReadonlyMap<string, ReceiptStatus>>(new Map());
  const [fallback, setFallback] = createSignal<ReceiptStatus>({ kind: "checking" });
  let run = 0;

  const check = async () => {
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
    } catch (error) {
      const { message: reason } = caughtProblem(error);
      if (mine === run) setFallback({ kind: "unavailable", reason });
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
