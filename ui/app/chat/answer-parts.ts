import type { ChatEvent } from "../../../proto/chat/events.ts";
import type { MessagePart } from "../../../proto/chat/session.ts";
import type { ToolName, ToolResult } from "../../../proto/chat/tools.ts";

/** Returns the parts of an answer after an event; the same array when the event adds nothing to them. */
export const withEvent = (
  parts: readonly MessagePart[],
  { event, data }: ChatEvent,
): readonly MessagePart[] => {
  switch (event) {
    case "text_delta": {
      const last = parts.at(-1);
      if (data.text === "") return parts;
      return last?.type === "text"
        ? [...parts.slice(0, -1), { type: "text", text: last.text + data.text }]
        : [...parts, { type: "text", text: data.text }];
    }
    case "tool_call":
    case "tool_result":
      return [...parts, { type: event, ...data } as MessagePart];
    default:
      return parts;
  }
};

/** A piece of an answer as it is shown: text, or a tool call with its result once it has one. */
export type ShownPart =
  | { type: "text"; text: string }
  | {
      type: "tool";
      callId: string;
      name: ToolName;
      input: Record<string, unknown>;
      result: ToolResult | undefined;
    };

/** Returns the parts as they are shown, each result with its call. */
export const shownParts = (parts: readonly MessagePart[]): ShownPart[] => {
  const results = new Map(
    parts.flatMap((part) =>
      part.type === "tool_result" ? [[part.call_id, part.result] as const] : [],
    ),
  );
  return parts.flatMap((part): ShownPart[] => {
    if (part.type === "text") return part.text.trim() === "" ? [] : [part];
    if (part.type === "tool_result") return [];
    const { call_id: callId, name, input } = part;
    return [{ type: "tool", callId, name, input, result: results.get(callId) }];
  });
};
