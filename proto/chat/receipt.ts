import * as v from "valibot";
import { Id, IsoTimestamp, WholeNumber } from "../values.ts";
import type { MessageStatus, ToolName, ToolResult } from "./session.ts";

/** The kinds of receipts. `closing` ends each turn. */
const receiptKinds = ["user_message", "tool_call", "tool_result", "answer", "closing"] as const;

/** One of `receiptKinds`. */
export type ReceiptKind = (typeof receiptKinds)[number];

const Sha256Hex = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, "must be 64 lowercase hex digits"));

/**
 * A signed link of a conversation's chain. `signature` is Ed25519 (RFC 8032), base64url, over the RFC 8785 form of all other fields.
 * `payload_sha256` is of the RFC 8785 form of the payload, `prev_sha256` of that of the whole previous receipt, its signature included;
 * 64 zeros in the first.
 */
export const Receipt = v.strictObject({
  seq: WholeNumber(1),
  session_id: Id,
  kind: v.picklist(receiptKinds),
  payload_sha256: Sha256Hex,
  prev_sha256: Sha256Hex,
  created_at: IsoTimestamp,
  key_id: v.string(),
  /** In a `closing` receipt: the number of receipts in the chain so far, itself included. */
  length: v.optional(v.number()),
  signature: v.string(),
});

/** A signed link of a conversation's chain. */
export type Receipt = v.InferOutput<typeof Receipt>;

/** The payloads, by the kind of their receipt. */
export interface ReceiptPayloads {
  user_message: { message_id: string; content: string };
  tool_call: {
    message_id: string;
    call_id: string;
    name: ToolName;
    input: Record<string, unknown>;
  };
  tool_result: { message_id: string; call_id: string; name: ToolName; result: ToolResult };
  /** `text` is the whole text of the answer; its tool calls have receipts of their own. */
  answer: { message_id: string; provider: string; model: string; text: string };
  closing: { message_id: string; status: Exclude<MessageStatus, "answering">; length: number };
}

/** A public key of receipts (RFC 8037). */
export const ReceiptKey = v.object({
  kty: v.literal("OKP"),
  crv: v.literal("Ed25519"),
  x: v.string(),
  kid: v.string(),
  use: v.literal("sig"),
  alg: v.literal("EdDSA"),
  /** The private key existed in the memory of one process only, so nobody but this list vouches for it. */
  svc_ephemeral: v.optional(v.boolean()),
});

/** A public key of receipts. */
export type ReceiptKey = v.InferOutput<typeof ReceiptKey>;

/** Response of `GET /v1/chat/receipt-keys`: a JWK set (RFC 7517) with every key that ever signed. */
export const ReceiptKeys = v.object({ keys: v.array(ReceiptKey) });

/** A JWK set of receipt keys. */
export type ReceiptKeys = v.InferOutput<typeof ReceiptKeys>;

/** Signed when the receipts are read: proves that the list ends here, so that a whole turn cannot be cut off its end. */
export const ReceiptHead = v.strictObject({
  session_id: Id,
  length: v.number(),
  /** SHA-256 of the RFC 8785 form of the last receipt; 64 zeros without one. */
  last_sha256: Sha256Hex,
  read_at: IsoTimestamp,
  key_id: v.string(),
  signature: v.string(),
});

/** The signed end of a list of receipts. */
export type ReceiptHead = v.InferOutput<typeof ReceiptHead>;

/** Response of `GET /v1/chat/sessions/{id}/receipts`, and the file that an auditor receives. */
export const ReceiptFile = v.strictObject({
  format: v.literal("svc.chat-receipts.v1"),
  session_id: Id,
  head: ReceiptHead,
  keys: v.array(ReceiptKey),
  items: v.array(
    v.strictObject({ ...Receipt.entries, payload: v.record(v.string(), v.unknown()) }),
  ),
});

/** The receipts of a conversation with their payloads. */
export type ReceiptFile = v.InferOutput<typeof ReceiptFile>;
