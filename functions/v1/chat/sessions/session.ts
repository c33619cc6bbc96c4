import type * as v from "valibot";
import { viewOf } from "#functions/http/route.ts";
import type { ChatMessageRow } from "#functions/store/chat/messages.ts";
import { ChatMessage, ChatSession } from "#proto/chat/session.ts";

/** Shows a conversation. */
export const sessionView = viewOf(ChatSession);

const view = viewOf(ChatMessage);

/** Shows a message; of an answer that is being written, the part that is stored. */
export const messageView = (row: ChatMessageRow): ChatMessage =>
  view({
    ...row,
    parts: row.tail === "" ? row.parts : [...row.parts, { type: "text", text: row.tail }],
  });

/** A conversation of the documentation. */
export const sessionExample: v.InferOutput<typeof ChatSession> = {
  id: "01920000-0000-7000-8000-0000000000c1",
  title: "Which hosts stopped forwarding since the rollout?",
  created_at: "2026-06-01T12:00:00.000Z",
  updated_at: "2026-06-01T12:01:30.000Z",
  message_count: 2,
};

/** Messages of the documentation. */
export const messageExamples: v.InferOutput<typeof ChatMessage>[] = [
  {
    id: "01920000-0000-7000-8000-0000000000c2",
    role: "user",
    status: "complete",
    created_at: "2026-06-01T12:01:30.000Z",
    parts: [{ type: "text", text: "How many hosts are stale?" }],
  },
  {
    id: "01920000-0000-7000-8000-0000000000c3",
    role: "assistant",
    status: "complete",
    created_at: "2026-06-01T12:01:30.000Z",
    parts: [
      {
        type: "tool_call",
        call_id: "call_1",
        name: "query_sql",
        input: { statement: "select count(*) from collectors where state = 'stale'" },
      },
      {
        type: "tool_result",
        call_id: "call_1",
        name: "query_sql",
        result: {
          kind: "rows",
          columns: [{ name: "count", type: "bigint" }],
          rows: [[3]],
          row_count: 1,
          truncated: false,
        },
      },
      { type: "text", text: "3 hosts are stale." },
    ],
  },
];
