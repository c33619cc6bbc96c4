import type { InferenceMessage } from "#functions/inference/inference.ts";
import type { ChatMessageRow } from "#functions/store/chat/sessions.ts";
import type { MessagePart, ToolResult } from "#proto/chat/session.ts";

/** The most bytes of JSON of earlier turns in a request to the model; drops the oldest whole turns. */
const historyBytesMax = 192 * 1024;
/** The most bytes of JSON of a result of an earlier turn; drops its last rows. */
const earlierResultBytesMax = 4 * 1024;
/** The most bytes of JSON of the current turn's results; then shortens them like earlier ones. */
const currentResultsBytesMax = 384 * 1024;

/** Returns the conversation so far as messages to the model, up to a limit. Omits turns without an answer. */
export const historyOf = (messages: readonly ChatMessageRow[]): InferenceMessage[] => {
  const turns: InferenceMessage[][] = [];
  for (const [at, { role, parts }] of messages.entries()) {
    const answer = messages[at + 1];
    if (role !== "user" || answer?.role !== "assistant" || answer.parts.length === 0) continue;
    const [first] = parts;
    turns.push([
      { role: "user", text: first?.type === "text" ? first.text : "" },
      ...answerMessages(answer.parts, (result) => shorten(result, earlierResultBytesMax)),
    ]);
  }
  const kept: InferenceMessage[][] = [];
  let bytes = 0;
  for (const turn of turns.toReversed()) {
    bytes += bytesOf(turn);
    if (bytes > historyBytesMax) break;
    kept.unshift(turn);
  }
  return kept.flat();
};

/** Returns the answer under way as messages to the model, its results up to a limit. */
export const currentMessages = (parts: readonly MessagePart[]): InferenceMessage[] => {
  let bytes = 0;
  return answerMessages(parts, (result) => {
    bytes += bytesOf(result);
    return bytes > currentResultsBytesMax ? shorten(result, earlierResultBytesMax) : result;
  });
};

/** Splits an answer into rounds: the model's text and tool calls, then the results. Omits calls without a result. */
const answerMessages = (
  parts: readonly MessagePart[],
  shortened: (result: ToolResult) => ToolResult,
): InferenceMessage[] => {
  const answered = new Set(
    parts.flatMap((part) => (part.type === "tool_result" ? [part.call_id] : [])),
  );
  const messages: InferenceMessage[] = [];
  for (const part of parts) {
    const last = messages.at(-1);
    if (part.type === "tool_result") {
      const { call_id: callId, name, result } = part;
      const answer = { callId, name, result: shortened(result) };
      if (last?.role === "tool")
        messages[messages.length - 1] = { role: "tool", results: [...last.results, answer] };
      else messages.push({ role: "tool", results: [answer] });
      continue;
    }
    if (part.type === "tool_call" && !answered.has(part.call_id)) continue;
    const said =
      part.type === "text"
        ? part
        : { type: part.type, callId: part.call_id, name: part.name, input: part.input };
    if (last?.role === "assistant")
      messages[messages.length - 1] = { role: "assistant", parts: [...last.parts, said] };
    else messages.push({ role: "assistant", parts: [said] });
  }
  return messages;
};

/** Returns a result of at most about `bytesMax`, without its last rows. */
const shorten = (result: ToolResult, bytesMax: number): ToolResult => {
  if (result.kind !== "rows" || bytesOf(result) <= bytesMax) return result;
  const rows: unknown[][] = [];
  let bytes = bytesOf(result.columns);
  for (const row of result.rows) {
    bytes += bytesOf(row) + 1;
    if (bytes > bytesMax) break;
    rows.push(row);
  }
  return { ...result, rows, truncated: true };
};

const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length;
