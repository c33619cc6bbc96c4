import * as v from "valibot";
import { Id, IsoTimestamp, TextOrNull } from "../values.ts";
import { Receipt } from "./receipt.ts";

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

/** The tools of the model: read-only SQL over a fixed set of relations (docs/chat.md). */
export const toolNames = ["list_tables", "describe_table", "query_sql"] as const;

/** The name of a tool. */
export const ToolName = v.picklist(toolNames);

/** The name of a tool. */
export type ToolName = v.InferOutput<typeof ToolName>;

/** Reports whether a text is the name of a tool. */
export const isToolName = (text: string): text is ToolName =>
  (toolNames as readonly string[]).includes(text);

/** The input of each tool. */
export const toolInputs = {
  list_tables: v.strictObject({}),
  describe_table: v.strictObject({ name: v.string() }),
  query_sql: v.strictObject({ statement: v.string() }),
} as const satisfies Record<ToolName, v.GenericSchema>;

/** The most rows of a query. */
export const rowsMax = 200;

/** The largest result of a query, in bytes of its JSON. */
export const resultBytesMax = 256 * 1024;

/** A relation that the model may read, with its description for people and model. */
export const RelationSummary = v.strictObject({ name: v.string(), description: v.string() });

/** A relation that the model may read. */
export type RelationSummary = v.InferOutput<typeof RelationSummary>;

/** A column; `unit` where a number has one, for example `seconds` or `bytes`. */
export const ColumnDescription = v.strictObject({
  name: v.string(),
  type: v.string(),
  unit: TextOrNull,
  description: v.string(),
});

/** A column. */
export type ColumnDescription = v.InferOutput<typeof ColumnDescription>;

/** The result of a tool, for the model, the page and the receipt. Values of rows are JSON: a bigint or numeric is a number or a string. */
export const ToolResult = v.variant("kind", [
  v.strictObject({ kind: v.literal("relations"), relations: v.array(RelationSummary) }),
  v.strictObject({
    kind: v.literal("relation"),
    ...RelationSummary.entries,
    columns: v.array(ColumnDescription),
    /** Rules beyond the columns, for example the precedence of the states. */
    notes: v.array(v.string()),
  }),
  v.strictObject({
    kind: v.literal("rows"),
    columns: v.array(v.strictObject({ name: v.string(), type: v.string() })),
    rows: v.array(v.array(v.unknown())),
    row_count: v.number(),
    /** Rows or bytes were cut off at a limit. */
    truncated: v.boolean(),
  }),
  v.strictObject({ kind: v.literal("error"), code: v.string(), message: v.string() }),
]);

/** The result of a tool. */
export type ToolResult = v.InferOutput<typeof ToolResult>;

/** Returns a result that reports an error to the model. */
export const toolError = (code: string, message: string): ToolResult => ({
  kind: "error",
  code,
  message,
});

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
  title: TextOrNull,
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
    reason: TextOrNull,
  }),
  receipts: v.strictObject({
    key_id: v.string(),
    /** The key was made at the start of this core and exists in its memory only. */
    ephemeral: v.boolean(),
  }),
});

/** Response of `GET /v1/chat/status`. */
export type ChatStatus = v.InferOutput<typeof ChatStatus>;

/**
 * The events of `POST /v1/chat/sessions/{id}/messages`, by name. The stream is `text/event-stream` (WHATWG HTML, 9.2): each event has its
 * name in `event:` and one JSON object in `data:`. It ends with `done` or `error`; a stream that ends with neither was cut off. Comments
 * keep the connection open.
 */
export const chatEvents = {
  text_delta: v.strictObject({ text: v.string() }),
  tool_call: v.strictObject({
    call_id: v.string(),
    name: ToolName,
    input: v.record(v.string(), v.unknown()),
  }),
  tool_result: v.strictObject({ call_id: v.string(), name: ToolName, result: ToolResult }),
  receipt: Receipt,
  done: v.strictObject({ message_id: Id, status: v.picklist(messageStatuses) }),
  /** A problem document (docs/problems.md), as the body of a failed request would have it. */
  error: v.looseObject({
    code: v.string(),
    title: v.string(),
    status: v.number(),
    request_id: v.string(),
  }),
} as const;

/** The name of an event. */
export type ChatEventName = keyof typeof chatEvents;

/** An event of an answer. */
export type ChatEvent = {
  [Name in ChatEventName]: { event: Name; data: v.InferOutput<(typeof chatEvents)[Name]> };
}[ChatEventName];
