/** Accounts of hosts (`Account` in ingest.proto): what their signature and their hash cover. */

/** Why a collector did not accept records, in the order of `AccountRefusalReason`, which begins at 1. */
export const sourceRefusals = ["queue_full", "too_large", "malformed", "retry"] as const;

/** One of `sourceRefusals`. */
export type SourceRefusal = (typeof sourceRefusals)[number];

const prefix = new TextEncoder().encode("svc-account-v1\n");

/** Returns the bytes that an account's signature covers, and of which its hash is the SHA-256. */
export const accountPayload = (body: Uint8Array): Uint8Array<ArrayBuffer> => {
  const payload = new Uint8Array(prefix.length + body.length);
  payload.set(prefix);
  payload.set(body, prefix.length);
  return payload;
};
