import type { ChatSql } from "#functions/chat-sql/create-chat-sql.ts";
import type { Inference } from "#functions/inference/inference.ts";
import type { ReceiptKey } from "#proto/chat/receipt.ts";

/** The key that signs receipts. */
export interface ReceiptSigner {
  /** `kid` is the key id that receipts name. */
  key: ReceiptKey;
  /** Returns the Ed25519 signature (RFC 8032) of bytes. */
  sign(data: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
}

/** The chat agent's dependencies, in addition to core's own. Null in core when no model is configured. */
export interface Chat {
  inference: Inference;
  /** Null with `sqlOffReason` when the tools are not offered. */
  sql: ChatSql | null;
  sqlOffReason: string | null;
  signer: ReceiptSigner;
  /** Aborts when core shuts down, which ends answers under way. */
  stopping: AbortSignal;
}
