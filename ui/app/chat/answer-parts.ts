import type { ChatEvent, MessagePart, ToolName, ToolResult } from "#proto/chat/session.ts";
import { presentAddress } from "../browser/places.ts";

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

/** A piece of an answer's text; `href` where it names a page of ours. */
interface TextPiece {
  text: string;
  href?: string;
}

/** The pages that an answer may link to. Everything else, such as a URL, stays text. */
const linkedPage =
  /^\/(fleet|changes\/(audit|configs)|access\/enrollment|(hosts|changes\/configs)\/[0-9a-f-]{36})$/;

/** A path after white space or an opening mark, with the characters that a query has (RFC 3986) and the comparisons of the query bar. */
const candidate =
  /(?<=^|[\s("'`[<])\/[a-z][a-z-]*(?:\/[a-z]+(?![\w-]))?(?:\/[0-9a-f-]{36})?(?:\?[\w\-.~!$&'()*+,;=:@%/?<>]*)?/gu;

/** Marks that end a sentence or close a quotation around a path, and are rarely its own. */
const trailing = new Set(".,;:!?'\"`)>]*");

/** Removes trailing marks. A regular expression would take quadratic time. */
const withoutTrailing = (path: string) => {
  let end = path.length;
  while (trailing.has(path.charAt(end - 1))) end -= 1;
  return path.slice(0, end);
};

/** Returns the pieces of a text, in order: links to pages of ours, and the text between them. */
export const textPieces = (text: string): TextPiece[] => {
  const pieces: TextPiece[] = [];
  let from = 0;
  for (const { 0: match, index } of text.matchAll(candidate)) {
    const path = withoutTrailing(match);
    const end = index + path.length;
    const href = presentAddress(path);
    const page = href.split("?")[0] ?? "";
    // More of the path, as in `/fleet/../x`, is another page.
    if (!linkedPage.test(page) || /^[/\w-]/.test(text.slice(end))) continue;
    if (index > from) pieces.push({ text: text.slice(from, index) });
    pieces.push({ text: path, href });
    from = end;
  }
  if (from < text.length) pieces.push({ text: text.slice(from) });
  return pieces;
};
