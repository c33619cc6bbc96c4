import { ConfigError } from "../kit/env.ts";
import type { ChatConfig } from "./chat-config.ts";
import type { Core } from "./core.ts";
import type { Chat } from "./domain/chat/chat.ts";
import { createReceiptSigner } from "./domain/chat/receipt-signer.ts";
import { keepReceiptKey } from "./domain/chat/receipts.ts";
import { runChatTurnJob } from "./jobs/run-chat-turn-job.ts";
import { readKeyFile } from "./node/read-key-file.ts";
import { withConfigError } from "./node/with-config-error.ts";

/** The chat agent of a server. */
export interface StartedChat {
  chat: Chat;
  /** Resolves once its jobs have ended. */
  ended: Promise<void>;
}

/**
 * Creates the chat agent: loads the language model and the key that signs receipts, and starts its jobs. Throws `ConfigError` for a key
 * that cannot be used, and for a key id that belongs to another key.
 */
export const startChat = async (
  core: Pick<Core, "db" | "clock" | "entropy" | "log">,
  { config, jobs, stopping }: { config: ChatConfig; jobs: Pick<Core, "db">; stopping: AbortSignal },
): Promise<StartedChat> => {
  const { receiptKey } = config;
  const signer = await withConfigError("SVC_CHAT_RECEIPT_SIGNING_KEY_PATH", () =>
    createReceiptSigner(receiptKey && { pem: readKeyFile(receiptKey.file).toString("utf8"), id: receiptKey.id }),
  );
  if (!(await keepReceiptKey(core.db, { signer, clock: core.clock })))
    throw new ConfigError([
      {
        variable: "SVC_CHAT_RECEIPT_SIGNING_KEY_ID",
        message: "is the id of another key, which has signed receipts: give the new key a new id",
      },
    ]);
  if (receiptKey === null)
    core.log.warn(
      { key_id: signer.key.kid },
      "receipts of chat are signed with an ephemeral key: set SVC_CHAT_RECEIPT_SIGNING_KEY_PATH",
    );
  const { createInference } = await import("./inference/create-inference.ts");
  const chat: Chat = {
    inference: await createInference(config.inference, core),
    sql: null,
    sqlOffReason: "The SQL tools are not built yet",
    signer,
    stopping,
  };
  return { chat, ended: runChatTurnJob({ ...core, ...jobs }, chat, stopping) };
};
