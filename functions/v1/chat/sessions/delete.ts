import type { Core } from "#functions/core.ts";
import { deleteConversation } from "#functions/domain/chat/conversations.ts";
import { personScope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";

/** `DELETE /v1/chat/sessions/{id}`: deletes a conversation of the caller. */
export const deleteConversationRoute = (core: Pick<Core, "config" | "db" | "clock">) =>
  route({
    method: "DELETE",
    path: "/v1/chat/sessions/:id",
    operationId: "deleteChatSession",
    summary:
      "Delete a conversation of the caller with its messages and receipts; an answer that is being written ends",
    guard: personScope(core, "audit"),
    params: IdParams,
    replies: { 204: { description: "The conversation is deleted" } },
    problems: ["not_found"],
    handle: async ({ params, caller }) => {
      await deleteConversation(core, caller, params.id);
      return { status: 204 };
    },
  });
