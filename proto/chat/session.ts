import * as v from "valibot";
import { Id, IsoTimestamp } from "../values.ts";
import { ToolName, ToolResult } from "./tools.ts";

/** The largest message of a person, in bytes of UTF-8. */
export const messageBytesMax = 32 * 1024;

/** The longest title of a conversation, in characters. */
export const titleLengthMax = 120;

/**
 * The status of a message. An answer is `answering` until its turn ends; `aborted` when the person stopped it, disconnected, or core was
 * killed; `failed` when the model or a limit ended it.
 */
export const messageStatuses = ["complete", "answering", "aborted", "failed"] as const;

/** The status of a message. */
export type MessageStatus = (typeof messageStatuses)[number];

/** A piece of a message, in the order in which the model produced it. Text is plain text, never HTML or Markdown. */
export const MessagePart = v.variant("type", [
  v.strictObject({ type: v.literal("text"), text: v.string() }),
  v.strictObject({
    type: v.literal("tool_call"),
    call_id: v.string(),
    name: ToolName,
    input: v.record(v.string(), v.unknown()),
  }),
  v.strictObject({
    type: v.literal("tool_result"),
    call_id: v.string(),
    name: ToolName,
    result: ToolResult,
  }),
]);

/** A piece of a message. */
export type MessagePart = v.InferOutput<typeof MessagePart>;

/** Returns the text of a message without its tool calls, as its receipt signs it. */
export const messageText = (parts: readonly MessagePart[]): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("");

/** A message of a conversation. */
export const ChatMessage = v.strictObject({
  id: Id,
  role: v.picklist(["user", "assistant"]),
  status: v.picklist(messageStatuses),
  created_at: IsoTimestamp,
  parts: v.array(MessagePart),
});

/** A message of a conversation. */
export type ChatMessage = v.InferOutput<typeof ChatMessage>;

/** A conversation of one person. The title is the start of the first question until the person renames it. */
export const ChatSession = v.strictObject({
  id: Id,
  title: v.nullable(v.string()),
  created_at: IsoTimestamp,
  updated_at: IsoTimestamp,
  message_count: v.number(),
});

/** A conversation of one person. */
export type ChatSession = v.InferOutput<typeof ChatSession>;

/** Response of `GET /v1/chat/sessions/{id}`: a conversation with its messages, oldest first. */
export const ChatConversation = v.strictObject({
  ...ChatSession.entries,
  messages: v.array(ChatMessage),
});

/** A conversation with its messages. */
export type ChatConversation = v.InferOutput<typeof ChatConversation>;

/** Response of `GET /v1/chat/status`. */
export const ChatStatus = v.strictObject({
  provider: v.picklist(["openai", "openai-compatible", "litellm", "anthropic", "mock"]),
  model: v.string(),
  sql_tools: v.strictObject({
    offered: v.boolean(),
    /** Why the tools are not offered; null when they are. */
    reason: v.nullable(v.string()),
  }),
  receipts: v.strictObject({
    key_id: v.string(),
    /** The key was made at the start of this core and exists in its memory only. */
    ephemeral: v.boolean(),
  }),
});

/** Response of `GET /v1/chat/status`. */
export type ChatStatus = v.InferOutput<typeof ChatStatus>;
