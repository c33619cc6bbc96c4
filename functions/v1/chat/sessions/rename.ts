import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { renameConversation } from "#functions/domain/chat/conversations.ts";
import { personScope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { ChatSession } from "#proto/chat/session.ts";
import { Identifier } from "#proto/values.ts";
import { sessionExample, sessionView } from "./session.ts";

/** `PUT /v1/chat/sessions/{id}`: renames a conversation of the caller. */
export const renameConversationRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "PUT",
    path: "/v1/chat/sessions/:id",
    operationId: "renameChatSession",
    summary: "Rename a conversation of the caller",
    guard: personScope(core, "audit"),
    params: IdParams,
    body: v.strictObject({ title: Identifier(120) }),
    bodyExample: { title: sessionExample.title },
    replies: {
      200: { description: "The conversation", schema: ChatSession, example: sessionExample },
    },
    problems: ["not_found"],
    handle: async ({ params, body, caller }) => ({
      status: 200,
      body: sessionView(
        await renameConversation(core, caller, { id: params.id, title: body.title }),
      ),
    }),
  });
