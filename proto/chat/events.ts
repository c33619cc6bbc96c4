import * as v from "valibot";
import { Id } from "../values.ts";
import { Receipt } from "./receipt.ts";
import { messageStatuses } from "./session.ts";
import { ToolName, ToolResult } from "./tools.ts";

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
