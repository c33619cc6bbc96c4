import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { createConversation } from "#functions/domain/chat/conversations.ts";
import { personScope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { Name } from "#functions/v1/shapes.ts";
import { ChatSession } from "#proto/chat/session.ts";
import { sessionExample, sessionView } from "./session.ts";

/** `POST /v1/chat/sessions`: creates a conversation of the caller. */
export const createConversationRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/chat/sessions",
    operationId: "createChatSession",
    summary: "Create a conversation of the caller, who may have 200",
    guard: personScope(core, "audit"),
    body: v.strictObject({ title: v.optional(v.nullable(Name), null) }),
    bodyAbsentAs: {},
    bodyExample: { title: "Rollout of 1.4" },
    replies: {
      201: {
        description: "The conversation",
        schema: ChatSession,
        example: { ...sessionExample, title: "Rollout of 1.4", message_count: 0 },
      },
    },
    problems: ["conflict"],
    handle: async ({ body, caller }) => ({
      status: 201,
      body: sessionView(await createConversation(core, caller, body.title)),
    }),
  });
