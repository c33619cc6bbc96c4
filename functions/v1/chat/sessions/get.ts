import type { Core } from "#functions/core.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { readConversation } from "#functions/domain/chat/conversations.ts";
import { personScope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { ChatConversation } from "#proto/chat/session.ts";
import { messageExamples, messageView, sessionExample, sessionView } from "./session.ts";

/** `GET /v1/chat/sessions/{id}`: a conversation of the caller with its messages. */
export const getConversationRoute = (
  core: Pick<Core, "config" | "db" | "clock">,
  chat: Pick<Chat, "signer">,
) =>
  route({
    method: "GET",
    path: "/v1/chat/sessions/:id",
    operationId: "getChatSession",
    summary: "A conversation of the caller with its messages, oldest first",
    guard: personScope(core, "audit"),
    params: IdParams,
    replies: {
      200: {
        description: "The conversation",
        schema: ChatConversation,
        example: { ...sessionExample, messages: messageExamples },
      },
    },
    problems: ["not_found"],
    handle: async ({ params, caller }) => {
      const { session, messages } = await readConversation(core, chat, caller, params.id);
      return {
        status: 200,
        body: { ...sessionView(session), messages: messages.map(messageView) },
      };
    },
  });
