import type { Core } from "#functions/core.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { openConversation } from "#functions/domain/chat/conversations.ts";
import { readReceipts } from "#functions/domain/chat/receipts.ts";
import { personScope } from "#functions/http/guards.ts";
import { IdParams } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { ReceiptFile } from "#proto/chat/receipt.ts";

/** `GET /v1/chat/sessions/{id}/receipts`: the signed receipts of a conversation, the file that an auditor verifies. */
export const listReceiptsRoute = (
  core: Pick<Core, "config" | "db" | "clock">,
  chat: Pick<Chat, "signer">,
) =>
  route({
    method: "GET",
    path: "/v1/chat/sessions/:id/receipts",
    operationId: "getChatReceipts",
    summary:
      "The signed receipts of a conversation of the caller, for `svc-server verify-receipts`",
    guard: personScope(core, "audit"),
    params: IdParams,
    replies: {
      200: {
        description: "The receipts with their payloads, a signed head and the keys",
        schema: ReceiptFile,
      },
    },
    problems: ["not_found"],
    handle: async ({ params, caller }) => {
      await openConversation(core, chat, caller, params.id);
      const file = await readReceipts(core, chat.signer, { id: params.id, userId: caller.userId });
      const headers = {
        "Content-Disposition": `attachment; filename="chat-receipts-${params.id}.json"`,
      };
      return { status: 200, body: file, headers };
    },
  });
