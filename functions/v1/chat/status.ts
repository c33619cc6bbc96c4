import type { ReadCore } from "#functions/core.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { browseReceiptKeys } from "#functions/domain/chat/receipts.ts";
import { personScope, resource } from "#functions/http/resource.ts";
import { ReceiptKeys } from "#proto/chat/receipt.ts";
import { ChatStatus } from "#proto/chat/session.ts";

/** The routes that report the model and the keys that sign receipts. */
export const chatReports = (core: ReadCore, chat: Chat) =>
  resource(core, "/v1/chat", ({ get }) => ({
    chatStatus: get(
      "/status",
      "The model, whether it may read the fleet, and the key that signs receipts",
      {
        by: personScope(core, "audit"),
        returns: [
          "The status of chat",
          ChatStatus,
          {
            provider: "anthropic",
            model: "a-model",
            sql_tools: { offered: true, reason: null },
            receipts: { key_id: "receipts-2026", ephemeral: false },
          },
        ],
        handle: async () => ({
          provider: chat.inference.provider,
          model: chat.inference.model,
          sql_tools: { offered: chat.sql !== null, reason: chat.sqlOffReason },
          receipts: {
            key_id: chat.signer.key.kid,
            ephemeral: chat.signer.key.svc_ephemeral === true,
          },
        }),
      },
    ),

    listReceiptKeys: get(
      "/receipt-keys",
      "Every public key that ever signed receipts, as a JWK set (RFC 7517)",
      {
        by: personScope(core, "audit"),
        returns: [
          "The keys, oldest first",
          ReceiptKeys,
          {
            keys: [
              {
                kty: "OKP",
                crv: "Ed25519",
                x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                kid: "receipts-2026",
                use: "sig",
                alg: "EdDSA",
              },
            ],
          },
        ],
        handle: async () => ({ keys: await browseReceiptKeys(core, chat.signer) }),
      },
    ),
  }));
