import type { Core } from "#functions/core.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { personScope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { ChatStatus } from "#proto/chat/session.ts";

/** `GET /v1/chat/status`: the model, whether it may read the fleet, and the key that signs receipts. */
export const chatStatusRoute = (core: Pick<Core, "config" | "db" | "clock">, chat: Chat) =>
  route({
    method: "GET",
    path: "/v1/chat/status",
    operationId: "chatStatus",
    summary: "The model, whether it may read the fleet, and the key that signs receipts",
    guard: personScope(core, "audit"),
    replies: {
      200: {
        description: "The status of chat",
        schema: ChatStatus,
        example: {
          provider: "anthropic",
          model: "a-model",
          sql_tools: { offered: true, reason: null },
          receipts: { key_id: "receipts-2026", ephemeral: false },
        },
      },
    },
    handle: async () => ({
      status: 200,
      body: {
        provider: chat.inference.provider,
        model: chat.inference.model,
        sql_tools: { offered: chat.sql !== null, reason: chat.sqlOffReason },
        receipts: {
          key_id: chat.signer.key.kid,
          ephemeral: chat.signer.key.svc_ephemeral === true,
        },
      },
    }),
  });
