import type { Core } from "#functions/core.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { browseReceiptKeys } from "#functions/domain/chat/receipts.ts";
import { personScope } from "#functions/http/guards.ts";
import { route } from "#functions/http/route.ts";
import { ReceiptKeys } from "#proto/chat/receipt.ts";

/** `GET /v1/chat/receipt-keys`: every public key that ever signed receipts. */
export const receiptKeysRoute = (
  core: Pick<Core, "config" | "db" | "clock">,
  { signer }: Pick<Chat, "signer">,
) =>
  route({
    method: "GET",
    path: "/v1/chat/receipt-keys",
    operationId: "listReceiptKeys",
    summary: "Every public key that ever signed receipts, as a JWK set (RFC 7517)",
    guard: personScope(core, "audit"),
    replies: {
      200: {
        description: "The keys, oldest first",
        schema: ReceiptKeys,
        example: {
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
      },
    },
    handle: async () => ({ status: 200, body: { keys: await browseReceiptKeys(core, signer) } }),
  });
