import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { browseConversations } from "#functions/domain/chat/conversations.ts";
import { personScope } from "#functions/http/guards.ts";
import { createList, ListView, listFields } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { ChatSession } from "#proto/chat/session.ts";
import { sessionExample, sessionView } from "./session.ts";

/** `GET /v1/chat/sessions`: the caller's conversations, the last used first. */
export const listConversationsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "chat-sessions");
  return route({
    method: "GET",
    path: "/v1/chat/sessions",
    operationId: "listChatSessions",
    summary: "The caller's conversations, the last used first",
    guard: personScope(core, "audit"),
    query: v.strictObject(listFields),
    replies: {
      200: {
        description: "A page of conversations",
        schema: ListView(ChatSession),
        example: { items: [sessionExample], next_cursor: null },
      },
    },
    handle: ({ query, caller }) =>
      list(query, (page) => browseConversations(core, caller, page), sessionView),
  });
};
