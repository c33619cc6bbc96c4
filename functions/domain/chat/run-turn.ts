import { uuidv7 } from "../../../kit/entropy.ts";
import type { Receipt } from "../../../proto/chat/receipt.ts";
import type { MessagePart } from "../../../proto/chat/session.ts";
import type { ToolResult } from "../../../proto/chat/tools.ts";
import type { ChatSql } from "../../chat-sql/chat-sql.ts";
import type { Core } from "../../core.ts";
import type { InferencePart } from "../../inference/inference.ts";
import { Problem } from "../../problems.ts";
import { updateChatMessage } from "../../store/chat/messages.ts";
import { type LockedChatSession, lockChatSession } from "../../store/chat/sessions.ts";
import type { Executor } from "../../store/database/database.ts";
import { type AuditEntry, type Origin, operatorActor, recordAudit } from "../audit/audit-log.ts";
import type { Operator } from "../operator/authenticate.ts";
import type { BegunTurn } from "./begin-turn.ts";
import type { Chat } from "./chat.ts";
import { currentMessages } from "./model-messages.ts";
import { cleanText, createTextCleaner, plainJson } from "./plain-json.ts";
import type { ReceiptEntry } from "./receipts.ts";
import { appendReceipts } from "./receipts.ts";
import { systemPrompt } from "./system-prompt.ts";
import { runTool, toolDefinitions, toolError } from "./tools.ts";
import type { TurnEvent } from "./turn-event.ts";

/** Rounds in which the model may call tools; then it has one more without. */
const toolRoundsMax = 8;
/** Tool calls of one round; further ones fail. */
const callsPerRoundMax = 8;
/** Tool calls of one round after which the turn fails: each is stored, audited and signed. */
const callsOfRoundMax = 32;
const callIdLengthMax = 256;
/** The largest input of a tool call, in bytes of JSON. */
const inputBytesMax = 32 * 1024;
/** The most that the results of one turn take, in bytes of JSON: then queries fail. */
const resultBytesMax = 2 * 1024 * 1024;
/** The longest answer, in characters. */
const answerCharactersMax = 256 * 1024;
/** The part of a statement that the audit log keeps, in characters. */
const auditedCharacters = 8 * 1024;

/** What a turn runs with. */
export interface TurnNeeds {
  core: Pick<Core, "db" | "clock" | "entropy" | "observe">;
  chat: Chat;
  operator: Operator;
  origin: Origin;
  /** Runs what writes the conversation one after the other. */
  exclusive: <Result>(write: () => Promise<Result>) => Promise<Result>;
  emit(event: TurnEvent): Promise<void>;
  signal: AbortSignal;
}

/** An answer that is being written. */
export interface Draft {
  parts: MessagePart[];
  /** How many of `parts` the database has. */
  stored: number;
  /** Size of the text so far, in characters. */
  characters: number;
  /** Size of the results so far, in bytes of JSON. */
  resultBytes: number;
}

type ToolCall = Extract<MessagePart, { type: "tool_call" }>;

/** Runs the rounds of a turn: appends what the model says and calls to `draft`. Ends when the model has answered; throws otherwise. */
export const runTurn = async (needs: TurnNeeds, turn: BegunTurn, draft: Draft): Promise<void> => {
  const { sql } = needs.chat;
  for (let round = 0; ; round++) {
    const offered = sql !== null && round < toolRoundsMax;
    const calls = await runRound(needs, turn, draft, offered);
    if (!offered || calls.length === 0) break;
    for (const [at, call] of calls.entries())
      await runCall({ ...needs, sql }, turn, draft, { call, at });
  }
  if (!draft.parts.some((part) => part.type === "text" && part.text.trim() !== ""))
    throw new Problem("inference_failed", { detail: "The model gave no answer" });
};

const runRound = async (
  needs: TurnNeeds,
  turn: BegunTurn,
  draft: Draft,
  offered: boolean,
): Promise<ToolCall[]> => {
  const { chat, emit, signal } = needs;
  const clean = createTextCleaner();
  const calls: ToolCall[] = [];
  const output = chat.inference.stream({
    system: systemPrompt(chat.sql?.relations() ?? []),
    messages: [...turn.messages, ...currentMessages(draft.parts)],
    tools: offered ? toolDefinitions : [],
    signal,
  });
  for await (const part of output) {
    signal.throwIfAborted();
    if (part.type === "text") {
      const text = clean(part.text);
      if (text === "") continue;
      draft.characters += text.length;
      if (draft.characters > answerCharactersMax)
        throw new Problem("inference_failed", { detail: "The model's answer is too long" });
      const last = draft.parts.at(-1);
      if (last?.type === "text")
        draft.parts[draft.parts.length - 1] = { type: "text", text: last.text + text };
      else draft.parts.push({ type: "text", text });
      await emit({ event: "text_delta", data: { text } });
    } else if (offered)
      calls.push(toolCallOf(needs.core, part, [...draft.parts, ...calls], calls.length));
  }
  for (const call of calls) {
    draft.parts.push(call);
    const { call_id, name, input } = call;
    await emit({ event: "tool_call", data: { call_id, name, input } });
  }
  return calls;
};

/** Returns a call as it is stored. Each has an id of its own: a model may repeat one, and readers find a result by it. */
const toolCallOf = (
  core: TurnNeeds["core"],
  { callId, name, input }: Extract<InferencePart, { type: "tool_call" }>,
  before: readonly MessagePart[],
  at: number,
): ToolCall => {
  if (at === callsOfRoundMax)
    throw new Problem("inference_failed", { detail: "The model called too many tools at once" });
  if (JSON.stringify(input).length > inputBytesMax)
    throw new Problem("inference_failed", {
      detail: "The model called a tool with too large an input",
    });
  const given = cleanText(callId);
  const isFree = (id: string) =>
    !before.some((part) => part.type === "tool_call" && part.call_id === id);
  const id =
    given !== "" && given.length <= callIdLengthMax && isFree(given) ? given : uuidv7(core);
  try {
    return plainJson({ type: "tool_call", call_id: id, name, input });
  } catch (cause) {
    throw new Problem("inference_failed", {
      detail: "The model called a tool with an input that nests too deeply",
      cause,
    });
  }
};

const runCall = async (
  needs: TurnNeeds & { sql: ChatSql },
  turn: BegunTurn,
  draft: Draft,
  { call, at }: { call: ToolCall; at: number },
): Promise<void> => {
  const { core, sql, operator, origin, emit, signal } = needs;
  const { call_id, name, input } = call;
  const named = { message_id: turn.id, call_id, name };
  const audit = (entry: Pick<AuditEntry, "outcome" | "reasonCode" | "details">) => ({
    actor: operatorActor(operator),
    action: "chat.tool_call" as const,
    target: { type: "chat_session", id: turn.sessionId },
    origin,
    ...entry,
    details: { tool: name, ...statementOf(input), ...entry.details },
  });
  await emit(await append(needs, turn, draft, { kind: "tool_call", payload: { ...named, input } }));
  let result: ToolResult;
  try {
    result = plainJson(await runWithin({ sql, signal }, call, { at, draft }));
  } catch (error) {
    core.observe.chatToolCall(name, signal.aborted ? "aborted" : "failed");
    const entry = audit({
      outcome: "failure",
      reasonCode: signal.aborted ? "aborted" : "failed",
      details: {},
    });
    await needs.exclusive(() => core.db.transaction((tx) => recordAudit(tx, core, entry)));
    throw error;
  }
  draft.parts.push({ type: "tool_result", call_id, name, result });
  const fault = result.kind === "error" ? result.code : null;
  core.observe.chatToolCall(name, fault ?? "ok");
  const entry = audit({
    outcome: fault === null ? "success" : "failure",
    reasonCode: fault,
    details:
      result.kind === "rows" ? { row_count: result.row_count, truncated: result.truncated } : {},
  });
  const receipt = await append(
    needs,
    turn,
    draft,
    { kind: "tool_result", payload: { ...named, result } },
    entry,
  );
  await emit({ event: "tool_result", data: { call_id, name, result } });
  await emit(receipt);
};

const runWithin = async (
  { sql, signal }: { sql: ChatSql; signal: AbortSignal },
  { name, input }: ToolCall,
  { at, draft }: { at: number; draft: Draft },
): Promise<ToolResult> => {
  if (at >= callsPerRoundMax)
    return toolError(
      "too_many_calls",
      `At most ${callsPerRoundMax} tool calls run at once: call again`,
    );
  if (draft.resultBytes > resultBytesMax)
    return toolError(
      "results_too_large",
      "The results of this answer are too large: answer from what you have",
    );
  const result = await runTool(sql, { name, input }, signal);
  signal.throwIfAborted();
  draft.resultBytes += JSON.stringify(result).length;
  return result;
};

const statementOf = (input: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    ["statement", "name"]
      .filter((field) => typeof input[field] === "string")
      .map((field) => [field, String(input[field]).slice(0, auditedCharacters).toWellFormed()]),
  );

/** Appends one receipt and stores the parts so far, with an audit entry if there is one. */
const append = (
  needs: TurnNeeds,
  turn: BegunTurn,
  draft: Draft,
  entry: ReceiptEntry,
  audited?: AuditEntry,
): Promise<{ event: "receipt"; data: Receipt }> =>
  inOpenTurn(needs, turn, async (tx, session) => {
    const { core, chat } = needs;
    const [data] = await appendReceipts(tx, { signer: chat.signer, clock: core.clock }, session, [
      entry,
    ]);
    if (data === undefined) throw new Error("no receipt was appended");
    await updateChatMessage(tx, turn.id, { parts: draft.parts, tail: "" });
    if (audited) await recordAudit(tx, core, audited);
    draft.stored = draft.parts.length;
    return { event: "receipt" as const, data };
  });

/** Runs a transaction that writes an open turn. Throws `conflict` when another core closed it, or its conversation was deleted. */
export const inOpenTurn = <Result>(
  { core, exclusive }: Pick<TurnNeeds, "core" | "exclusive">,
  turn: Pick<BegunTurn, "id" | "sessionId">,
  write: (tx: Executor, session: LockedChatSession) => Promise<Result>,
): Promise<Result> =>
  exclusive(() =>
    core.db.transaction(async (tx) => {
      const session = await lockChatSession(tx, turn.sessionId);
      if (session?.turnId !== turn.id) throw turnLost();
      return write(tx, session);
    }),
  );

/** Returns the problem of a turn that this core may no longer write. */
export const turnLost = (): Problem =>
  new Problem("conflict", { detail: "The conversation was deleted, or its answer was closed" });
